// What a log row says. Messages come from these closed tables, so that no value can reach one.
import type { Caller } from '../access/caller.ts';

export type Operation = 'create' | 'update' | 'read' | 'delete' | 'use';

/** One deed, over one or more entities of a kind. */
export type LogRow = {
  id: string;
  actor_id: string | null;
  actor_type: string | null;
  entity_type: string;
  entity_ids: string[];
  operation: Operation;
  message: string;
  created_at: string;
};

const pastTense: Record<Operation, string> = {
  create: 'created',
  update: 'updated',
  read: 'retrieved',
  delete: 'deleted',
  use: 'used',
};

/** The message of a deed on a kind of entity: `Token created`. Token types all read `Token`. */
export const messageOf = (operation: Operation, entity: string): string =>
  `${entity[0]?.toUpperCase()}${entity.slice(1).replaceAll('_', ' ')} ${pastTense[operation]}`;

/** `messageOf` a token, worked out once. */
const tokenMessages = Object.fromEntries(
  Object.keys(pastTense).map((operation) => [operation, messageOf(operation as Operation, 'token')]),
) as Record<Operation, string>;

export const TOKEN_ASSOCIATED = 'Token association created';
export const TOKEN_DISSOCIATED = 'Token association deleted';
/** A member had the value itself shown, which no page does unasked. */
export const TOKEN_REVEALED = 'Token revealed';
export const INVITATION_ACCEPTED = 'Tenant invitation accepted';
export const PASSWORD_CHANGED = 'Tenant member password changed';

/** Clocks of rows: the id's time is the row's, so that the order of ids is the order of time. */
export type LogClock = { now: () => Date; newLogId: (at: Date) => string };

/** Whoever has the command line: an actor without an id. */
export const operator = { actor_id: null, actor_type: 'operator' } as const;

/** Whose deed it is: a caller, the operator, or nobody that is known. */
export type Actor = Pick<Caller, 'actor_id' | 'actor_type'> | typeof operator | { actor_id: null; actor_type: null };

/** What a row says of a deed, whatever it was done to. */
const deedRow = (
  ctx: LogClock,
  caller: Actor,
  { at, operation, message }: { at: Date; operation: Operation; message: string },
) => ({
  id: ctx.newLogId(at),
  actor_id: caller.actor_id,
  actor_type: caller.actor_type,
  operation,
  message,
  created_at: at.toISOString(),
});

/** A log row of a caller's deed, ready to be written with it. `entity` is the noun of the message, `entity_type` the kind on record. */
export const logRow = (
  ctx: LogClock,
  caller: Actor,
  deed: { operation: Operation; entity_type: string; entity_ids: string[]; entity?: string; message?: string },
): LogRow => {
  const { operation, entity_type, entity_ids, entity = entity_type, message = messageOf(operation, entity) } = deed;
  return { ...deedRow(ctx, caller, { at: ctx.now(), operation, message }), entity_type, entity_ids };
};

/** The log row of a deed over a token that is yet to be found, without what only the token knows. */
export const foundTokenLogRow = (
  ctx: LogClock,
  caller: Actor,
  { at, operation }: { at: Date; operation: 'read' | 'use' },
): Omit<LogRow, 'entity_type' | 'entity_ids'> =>
  deedRow(ctx, caller, { at, operation, message: tokenMessages[operation] });

/** Log rows of one deed over tokens: a row for each type among them. */
export const tokenLogRows = (
  ctx: LogClock,
  caller: Pick<Caller, 'actor_id' | 'actor_type'>,
  operation: Operation,
  tokens: readonly { id: string; type: string }[],
  message?: typeof TOKEN_REVEALED,
): LogRow[] => {
  const idsByType = new Map<string, string[]>();
  for (const { id, type } of tokens) {
    const ids = idsByType.get(type);
    if (ids) ids.push(id);
    else idsByType.set(type, [id]);
  }
  return [...idsByType].map(([entity_type, entity_ids]) =>
    logRow(ctx, caller, { operation, entity_type, entity_ids, message: message ?? tokenMessages[operation] }),
  );
};

/** The log row of a link: a link is a change of its parent. */
export const linkLogRow = (
  ctx: LogClock,
  caller: Pick<Caller, 'actor_id' | 'actor_type'>,
  parent: { id: string; type: string },
  message: typeof TOKEN_ASSOCIATED | typeof TOKEN_DISSOCIATED,
): LogRow => logRow(ctx, caller, { operation: 'update', entity_type: parent.type, entity_ids: [parent.id], message });
