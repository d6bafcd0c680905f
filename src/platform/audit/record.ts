// Makes the rows of the audit log. Messages come from closed tables, so that no value can reach one.
import type { NewLog } from './rows.ts';

export const operations = ['create', 'update', 'read', 'delete', 'use'] as const;

export type Operation = (typeof operations)[number];

/**
 * How much of stored values left the vault with an operation: nothing, the masked value, the value, or the value to code or
 * to a destination, which the caller does not see. Values that the caller has just sent do not count.
 */
export const disclosures = ['none', 'masked', 'revealed', 'used'] as const;

export type Disclosure = (typeof disclosures)[number];

/** `refused`: a permission was missing. `replayed`: an earlier answer was given again under its idempotency key. */
export const outcomes = ['success', 'refused', 'failed', 'replayed'] as const;

export type Outcome = (typeof outcomes)[number];

export const actorTypes = ['application', 'user', 'session', 'operator', 'system'] as const;

/** One operation, over one or more entities of a kind. */
export type LogRow = NewLog & { operation: Operation; disclosure: Disclosure };

const pastTense: Record<Operation, string> = {
  create: 'created',
  update: 'updated',
  read: 'retrieved',
  delete: 'deleted',
  use: 'used',
};

/** The message of an operation on a kind of entity: `Token created`. Token types all read `Token`. */
export const messageOf = (operation: Operation, entity: string): string =>
  `${entity[0]?.toUpperCase()}${entity.slice(1).replaceAll('_', ' ')} ${pastTense[operation]}`;

/** `messageOf` a token, worked out once. */
const tokenMessages = Object.fromEntries(
  operations.map((operation) => [operation, messageOf(operation, 'token')]),
) as Record<Operation, string>;

export const TOKEN_ASSOCIATED = 'Token association created';
export const TOKEN_DISSOCIATED = 'Token association deleted';
/** The value itself was shown. */
export const TOKEN_REVEALED = 'Token revealed';
/** One page of tokens in the console. */
export const TOKENS_LISTED = 'Tokens listed';
export const INVITATION_ACCEPTED = 'Tenant invitation accepted';
/** The operator wrote all tokens of a tenant to an encrypted file. */
export const TOKENS_EXPORTED = 'Tokens exported';
/** The operator ended one of an application's API keys. */
export const KEY_REVOKED = 'API key revoked';
/** Code sent a request with `fetch`. */
export const SENT_BY_CODE = 'Request sent by code';
/** A password was wrong where one signs in, joins another tenant or changes it. */
export const SIGN_IN_FAILED = 'Sign-in failed';
export const PASSWORD_CHANGED = 'Tenant member password changed';

/** Clocks of rows: the id's time is the row's, so that the order of ids is the order of time. */
export type LogClock = { now: () => Date; newLogId: (at: Date) => string };

/** Whoever has the command line: an actor without an id. */
export const operator = { actor_id: null, actor_type: 'operator' } as const;

/** What the vault does by itself. */
export const vaultItself = { actor_id: null, actor_type: 'system' } as const;

/** Where a request came from and what acts in it, by the names of the log's columns: part of every row it writes. */
export type RequestOrigin = {
  readonly trace_id?: string | undefined;
  readonly ip?: string | undefined;
  /** The reactor whose code acts, or for which tokens are opened. */
  readonly reactor_id?: string | undefined;
  /** The stored proxy likewise. */
  readonly proxy_id?: string | undefined;
};

/** Who acts: a caller, the operator, the vault itself, or an anonymous client. */
export type Actor = (
  | { readonly actor_id: string; readonly actor_type: 'application' | 'user' | 'session' }
  | typeof operator
  | typeof vaultItself
  | { actor_id: null; actor_type: null }
) & {
  readonly origin?: RequestOrigin | undefined;
  /** Notes the row where the request's answer is kept for a repetition. */
  readonly record?: { logged(row: LogRow): unknown };
};

/** What a row says beside who did what to which entity. */
type Details = {
  message?: string;
  /** Default `none`. */
  disclosure?: Disclosure;
  /** Default `success`. */
  outcome?: Outcome;
  destination_host?: string | undefined;
  is_list?: boolean;
};

/**
 * A row of the log for what a caller does, ready to be written with it. `entity` is the noun of the message, `entity_type` the
 * kind on record.
 */
export const logRow = (
  ctx: LogClock,
  actor: Actor,
  deed: { operation: Operation; entity_type: string; entity_ids: string[]; entity?: string } & Details,
): LogRow => {
  const { operation, entity_type, entity_ids, entity = entity_type } = deed;
  const at = ctx.now();
  const row: LogRow = {
    id: ctx.newLogId(at),
    actor_id: actor.actor_id,
    actor_type: actor.actor_type,
    entity_type,
    entity_ids,
    operation,
    message: deed.message ?? messageOf(operation, entity),
    created_at: at.toISOString(),
    disclosure: deed.disclosure ?? 'none',
    outcome: deed.outcome ?? 'success',
    destination_host: deed.destination_host,
    is_list: deed.is_list,
    ...actor.origin,
  };
  // What was refused or failed has no part in an answer.
  if (row.outcome === 'success') actor.record?.logged(row);
  return row;
};

/** Rows of the same operations once it is known that they failed. The rows themselves were written before. */
export const failedRows = (ctx: LogClock, rows: readonly LogRow[]): LogRow[] =>
  rows.map((row) => {
    const at = ctx.now();
    return { ...row, id: ctx.newLogId(at), created_at: at.toISOString(), outcome: 'failed' };
  });

/** A token with how much of its value an operation disclosed. */
export type LoggedToken = { id: string; type: string; disclosure: Disclosure };

/** The ids of those whose value is shown. */
export const revealedAmong = (tokens: readonly LoggedToken[]): string[] =>
  tokens.filter(({ disclosure }) => disclosure === 'revealed').map(({ id }) => id);

/** Rows of one operation over tokens: one for each type and disclosure among them. */
export const tokenLogRows = (
  ctx: LogClock,
  caller: Actor,
  operation: Operation,
  tokens: readonly LoggedToken[],
  details: Pick<Details, 'destination_host' | 'outcome'> = {},
): LogRow[] => {
  const groups = new Map<string, { entity_type: string; disclosure: Disclosure; entity_ids: string[] }>();
  for (const { id, type, disclosure } of tokens) {
    const name = `${disclosure} ${type}`;
    const group = groups.get(name);
    if (group) group.entity_ids.push(id);
    else groups.set(name, { entity_type: type, disclosure, entity_ids: [id] });
  }
  return [...groups.values()].map((group) =>
    logRow(ctx, caller, {
      operation,
      ...group,
      ...details,
      message: operation === 'read' && group.disclosure === 'revealed' ? TOKEN_REVEALED : tokenMessages[operation],
    }),
  );
};

/** The one row of a list that a person looks at: for each of them a row would bury all others. */
export const tokenListLogRow = (ctx: LogClock, caller: Actor, tokens: readonly LoggedToken[]): LogRow => {
  const [first] = new Set(tokens.map(({ type }) => type));
  const isOneType = tokens.every(({ type }) => type === first);
  const most = disclosures.findLast((disclosure) => tokens.some((token) => token.disclosure === disclosure));
  return logRow(ctx, caller, {
    operation: 'read',
    entity_type: isOneType && first !== undefined ? first : 'token',
    entity_ids: tokens.map(({ id }) => id),
    message: TOKENS_LISTED,
    disclosure: most ?? 'none',
    is_list: true,
  });
};

/** The log row of a link: a link is a change of its parent. */
export const linkLogRow = (
  ctx: LogClock,
  caller: Actor,
  parent: { id: string; type: string },
  message: typeof TOKEN_ASSOCIATED | typeof TOKEN_DISSOCIATED,
): LogRow => logRow(ctx, caller, { operation: 'update', entity_type: parent.type, entity_ids: [parent.id], message });
