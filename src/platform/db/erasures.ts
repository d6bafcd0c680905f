// Records deleted tokens, so that a restored backup does not bring them back.
import type { Query } from './statements.ts';

export type ErasedToken = { id: string; type: string; created_at: Date };

/**
 * A trigger writes the same rows for servers of earlier versions and for an operator's SQL, except on Citus, where tokens
 * have no triggers. Then this finds them written.
 */
const RECORD = `
INSERT INTO erasures (tenant_id, id, kind, made_at, erased_at)
SELECT $1::uuid, gone.id, 'token', gone.made_at, now() FROM unnest($2::text[], $3::timestamptz[]) AS gone(id, made_at)
ON CONFLICT DO NOTHING`;

/** Within the transaction that deletes the tokens. */
export const recordErasures = async (
  query: Query,
  tenant_id: string,
  tokens: readonly Omit<ErasedToken, 'type'>[],
): Promise<void> => {
  const ids = tokens.map(({ id }) => id);
  await query('record-erasures', RECORD, [tenant_id, ids, tokens.map(({ created_at }) => created_at)]);
};
