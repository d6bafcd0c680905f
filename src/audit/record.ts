// What a log row says. Messages come from this closed table, so that no value can reach one.
import type { Caller } from '../access/caller.ts';

export type Operation = 'create' | 'update' | 'read' | 'delete' | 'use';

export type LogRow = {
  id: string;
  actor_id: string | null;
  actor_type: string | null;
  entity_type: string;
  entity_id: string;
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

/** A log row of a caller's deed, ready to be written with it. `entity` is the noun of the message, `entity_type` the kind on record. */
export const logRow = (
  ctx: { now: () => Date; newLogId: () => string },
  caller: Caller,
  deed: { operation: Operation; entity_type: string; entity_id: string; entity?: string },
): LogRow => ({
  id: ctx.newLogId(),
  actor_id: caller.actor_id,
  actor_type: caller.actor_type,
  entity_type: deed.entity_type,
  entity_id: deed.entity_id,
  operation: deed.operation,
  message: messageOf(deed.operation, deed.entity ?? deed.entity_type),
  created_at: ctx.now().toISOString(),
});
