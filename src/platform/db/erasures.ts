// Records deleted tokens, so that a restored backup does not bring them back.
import type { createStatements, Query } from './statements.ts';

export type ErasedToken = { id: string; type: string; created_at: Date };

/** On Citus tokens have no triggers. Elsewhere a trigger writes the same rows, also for an operator's SQL. */
const RECORD = `
INSERT INTO erasures (tenant_id, id, kind, made_at, erased_at)
SELECT $1::uuid, gone.id, 'token', gone.made_at, now() FROM unnest($2::text[], $3::timestamptz[]) AS gone(id, made_at)
ON CONFLICT DO NOTHING`;

const NAME = 'record-erasures';

const HAS_TRIGGER = `SELECT FROM pg_trigger
WHERE tgrelid = 'tokens'::regclass AND tgname = 'tokens_record_erasures' AND tgenabled <> 'D'`;

/** Saves the round trip of `recordErasures` where the trigger records them. Servers are stopped before it is dropped. @throws unavailable. */
export const leaveErasuresToTrigger = async (
  statements: Pick<ReturnType<typeof createStatements>, 'query' | 'leaveOut'>,
): Promise<void> => {
  if ((await statements.query(undefined, HAS_TRIGGER, [])).length > 0) statements.leaveOut(NAME);
};

/** Within the transaction that deletes the tokens. */
export const recordErasures = async (
  query: Query,
  tenant_id: string,
  tokens: readonly Omit<ErasedToken, 'type'>[],
): Promise<void> => {
  const ids = tokens.map(({ id }) => id);
  await query(NAME, RECORD, [tenant_id, ids, tokens.map(({ created_at }) => created_at)]);
};
