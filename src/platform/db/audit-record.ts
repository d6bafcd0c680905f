// Builds audit log rows. Messages come from closed tables, so that they never contain a value.
import type { NewLog } from './audit-rows.ts';

// The entity types of audit log entries, with their display names.

/** Token types as the API names them. A test compares the list with the types that exist. */
export const tokenEntities = [
  'token',
  'card',
  'bank',
  'card_number',
  'us_bank_account_number',
  'us_bank_routing_number',
  'social_security_number',
  'employer_id_number',
] as const;

const otherEntities = [
  'access_review',
  'application',
  'forward',
  'log',
  'proxy',
  'reactor',
  'reactor_formula',
  'session',
  'tenant',
  'tenant_invitation',
  'tenant_member',
  'webhook',
] as const;

export type EntityType = { display_name: string; value: string };

/** Display names that are not the value in title case. */
const displayNames: Record<string, string> = {
  us_bank_account_number: 'US Bank Account Number',
  us_bank_routing_number: 'US Bank Routing Number',
};

const displayNameOf = (value: string): string =>
  displayNames[value] ??
  value
    .split('_')
    .map((word) => `${word[0]?.toUpperCase()}${word.slice(1)}`)
    .join(' ');

/** All values of `entity_type`, in alphabetical order. */
export const entityTypes: readonly EntityType[] = [...tokenEntities, ...otherEntities]
  .toSorted()
  .map((value) => ({ display_name: displayNameOf(value), value }));

export const operations = ['create', 'update', 'read', 'delete', 'use'] as const;

export type Operation = (typeof operations)[number];

/**
 * How much of stored values left the vault in an operation: `none`, the `masked` value, the `revealed` value, or `used`: the
 * value went to code or a destination and not to the caller. Values in the caller's own request do not count.
 */
export const disclosures = ['none', 'masked', 'revealed', 'used'] as const;

export type Disclosure = (typeof disclosures)[number];

/** `refused`: a permission was missing. `replayed`: the kept response of an idempotency key was returned again. */
export const outcomes = ['success', 'refused', 'failed', 'replayed'] as const;

export type Outcome = (typeof outcomes)[number];

export const actorTypes = ['application', 'user', 'session', 'operator', 'system'] as const;

/** One operation on one or more entities of one type. */
export type LogRow = NewLog & { operation: Operation; disclosure: Disclosure };

const pastTense: Record<Operation, string> = {
  create: 'created',
  update: 'updated',
  read: 'retrieved',
  delete: 'deleted',
  use: 'used',
};

/** The message of an operation on an entity type, such as `Token created`. All token types read `Token`. */
export const messageOf = (operation: Operation, entity: string): string =>
  `${entity[0]?.toUpperCase()}${entity.slice(1).replaceAll('_', ' ')} ${pastTense[operation]}`;

/** Messages of tokens, computed once. */
const tokenMessages = Object.fromEntries(
  operations.map((operation) => [operation, messageOf(operation, 'token')]),
) as Record<Operation, string>;

export const TOKEN_ASSOCIATED = 'Token association created';
export const TOKEN_DISSOCIATED = 'Token association deleted';
/** The value itself was shown. */
export const TOKEN_REVEALED = 'Token revealed';
/** A session for one stored card collected the code. */
export const CODE_COLLECTED = 'Security code collected';
/** A page of tokens that shows no value, and any page in the console. */
export const TOKENS_LISTED = 'Tokens listed';
/** A query had terms about values. Its tokens have rows of their own. */
export const VALUES_SEARCHED = 'Tokens searched by value';
export const INVITATION_ACCEPTED = 'Tenant invitation accepted';
/** The answer says who decides, and has no value. */
export const ACCESS_EXPLAINED = 'Access explained';
/** Nothing was opened for a destination or code, and nothing was sent. */
export const DRY_RUN = 'Dry run';
export const ACCESS_SIMULATED = 'Access change simulated';
export const ACCESS_REVIEWED = 'Access reviewed';
/** A person has read a review. The entity is the digest of its file; a note of the person follows. */
export const ACCESS_ATTESTED = 'Access review attested';
/** The operator wrote all tokens of a tenant to an encrypted file. */
export const TOKENS_EXPORTED = 'Tokens exported';
/** One more API key of an application. */
export const KEY_CREATED = 'API key created';
/** Another name, end or list of addresses. */
export const KEY_CHANGED = 'API key changed';
/** The operator or a caller ended one of an application's API keys. */
export const KEY_REVOKED = 'API key revoked';

/** Records of requests that have an idempotency key. */
export const FORWARDS_LISTED = 'Forwards listed';
export const FORWARD_REPLAYED = 'Forward replayed';

/** An event that tells nothing, to try a webhook. */
export const WEBHOOK_PINGED = 'Webhook pinged';
export const DELIVERY_REPLAYED = 'Webhook delivery replayed';
/** The vault paused the webhook: no delivery succeeds, or too many wait. */
export const WEBHOOK_PAUSED = 'Webhook paused';

/** The sweep deleted the token. */
export const TOKEN_EXPIRED = 'Token expired';

/** What changes nothing that is in use. */
export const DRAFT_SAVED = 'Draft of code saved';
export const DRAFT_DELETED = 'Draft of code deleted';

/** The operator has made a new data key of a tenant. */
export const DATA_KEY_MADE = 'Data key rotated';
/** A draft of its code or configuration ran. */
export const REACTOR_TESTED = 'Reactor tested';
/** Code sent a request with `fetch`. */
export const SENT_BY_CODE = 'Request sent by code';
/** A wrong password at sign-in, when joining another tenant, or when changing the password. */
export const SIGN_IN_FAILED = 'Sign-in failed';
export const PASSWORD_CHANGED = 'Tenant member password changed';
/** The member used a link that was mailed. */
export const PASSWORD_RESET = 'Tenant member password reset by mail';
export const SECOND_FACTOR_ADDED = 'Second factor added';
export const SECOND_FACTOR_GIVEN = 'Second factor given';
/** In place of a code of the device. */
export const RECOVERY_CODE_USED = 'Recovery code used';
/** The member, an administrator or the operator removed it. */
export const SECOND_FACTOR_REMOVED = 'Second factor removed';
export const PASSKEY_ADDED = 'Passkey added';
export const PASSKEY_USED = 'Passkey used';
export const PASSKEY_REMOVED = 'Passkey removed';
/** A copy of it was used meanwhile. */
export const PASSKEY_CLONED = 'Passkey refused: its counter went back';
/** The operator: whose people a tenant signs in by its own provider. */
export const SSO_DOMAIN_BOUND = 'Single sign-on domain bound';
export const SSO_DOMAIN_UNBOUND = 'Single sign-on domain unbound';
/** Settings of the provider. */
export const SSO_CHANGED = 'Single sign-on changed';
export const SSO_REMOVED = 'Single sign-on removed';
/** The first single sign-on of a member. */
export const SSO_ACCOUNT_BOUND = 'Single sign-on account bound';
/** At the provider, before a sensitive operation. */
export const SSO_GIVEN_AGAIN = 'Single sign-on given again';

/** The time and ids of rows. The id of a row contains its time, so that ids are in the order of time. */
export type LogClock = { now: () => Date; newLogId: (at: Date) => string };

/** The operator at the command line: an actor without an id. */
export const operator = { actor_id: null, actor_type: 'operator' } as const;

/** The vault itself, such as the sweep. */
export const vaultItself = { actor_id: null, actor_type: 'system' } as const;

/** The origin of a request, named as the log's columns. Part of every row that the request writes. */
export type RequestOrigin = {
  readonly trace_id?: string | undefined;
  /** The trace id of OpenTelemetry, where traces are on. */
  readonly otel_trace_id?: string | undefined;
  readonly ip?: string | undefined;
  /** The reactor whose code makes the request, or for which tokens are opened. */
  readonly reactor_id?: string | undefined;
  /** The stored proxy, likewise. */
  readonly proxy_id?: string | undefined;
  /** The application that asked, whoever acts for it. Undefined for a member or an anonymous client. */
  readonly application_id?: string | undefined;
  /** The application whose rights code has, or an open proxy. */
  readonly code_application_id?: string | undefined;
};

/** What a request did, as the usage counts it. `refused` and `failed` are outcomes: of requests, and of runs as they count them. */
export const usageKinds = ['stored', 'used', 'revealed', 'masked', 'refused', 'failed'] as const;

export type UsageKind = (typeof usageKinds)[number];

/** Counts what one request does. */
export type Usage = {
  /** @param ids of tokens. */
  count(kind: UsageKind, ids: readonly string[]): void;
  /** The response has ended. @param ms that the request took. */
  finish(ms: number): void;
};

/** The actor of an operation: a caller, the operator, the vault itself, or an anonymous client. */
export type Actor = (
  | { readonly actor_id: string; readonly actor_type: 'application' | 'user' | 'session' }
  | typeof operator
  | typeof vaultItself
  | { actor_id: null; actor_type: null }
) & {
  readonly origin?: RequestOrigin | undefined;
  /** Collects rows for the kept response of an idempotency key. */
  readonly record?: { logged(row: LogRow): unknown };
  /** Counter of its request. */
  readonly usage?: Usage | undefined;
  /** Why it wants to see values. @throws AppError where it must say so and did not. */
  reasonToReveal?(): string | undefined;
};

/** Optional fields of a row. */
type Details = {
  message?: string;
  /** Default `none`. */
  disclosure?: Disclosure;
  /** Default `success`. */
  outcome?: Outcome;
  destination_host?: string | undefined;
  is_list?: boolean;
};

/** 13 to 19 digits, with single dots or dashes between them. Addresses of version 4 have 12 at most. */
const cardLikeInHost = /(?<![0-9])[0-9](?:[.-]?[0-9]){12,18}(?![0-9])/g;

/** A host name may hold what looks like a card number, put there by a client. All its digits but the last four become X. */
export const maskHost = (host: string): string =>
  host.replace(cardLikeInHost, (digits) => digits.replace(/[0-9](?=(?:[.-]?[0-9]){4})/g, 'X'));

/**
 * Builds the log row of an operation, to be written with it. `entity` is the noun of the message; `entity_type` goes to the
 * column.
 */
export const logRow = (
  ctx: LogClock,
  actor: Actor,
  entry: { operation: Operation; entity_type: string; entity_ids: string[]; entity?: string } & Details,
): LogRow => {
  const { operation, entity_type, entity_ids, entity = entity_type } = entry;
  const { disclosure = 'none' } = entry;
  const at = ctx.now();
  const row: LogRow = {
    id: ctx.newLogId(at),
    actor_id: actor.actor_id,
    actor_type: actor.actor_type,
    entity_type,
    entity_ids,
    operation,
    message: entry.message ?? messageOf(operation, entity),
    created_at: at.toISOString(),
    disclosure,
    reason: disclosure === 'revealed' ? actor.reasonToReveal?.() : undefined,
    outcome: entry.outcome ?? 'success',
    destination_host: entry.destination_host === undefined ? undefined : maskHost(entry.destination_host),
    is_list: entry.is_list,
    ...actor.origin,
  };
  if (row.outcome === 'refused') actor.usage?.count('refused', []);
  // The values leave again.
  if (row.outcome === 'replayed') countShown(actor, row.disclosure, row.entity_ids);
  // Rows of refused or failed operations do not belong to the kept response.
  if (row.outcome === 'success') actor.record?.logged(row);
  return row;
};

/** Counts tokens whose values an operation disclosed. */
export const countShown = ({ usage }: Pick<Actor, 'usage'>, disclosure: Disclosure, ids: readonly string[]): void => {
  if (disclosure !== 'none') usage?.count(disclosure, ids);
};

/** Further rows for operations that failed after their rows were written. */
export const failedRows = (ctx: LogClock, rows: readonly LogRow[]): LogRow[] =>
  rows.map((row) => {
    const at = ctx.now();
    return { ...row, id: ctx.newLogId(at), created_at: at.toISOString(), outcome: 'failed' };
  });

/** A token with how much of its value an operation disclosed. */
export type LoggedToken = { id: string; type: string; disclosure: Disclosure };

/** The ids of tokens whose value was revealed. */
export const revealedAmong = (tokens: readonly LoggedToken[]): string[] =>
  tokens.filter(({ disclosure }) => disclosure === 'revealed').map(({ id }) => id);

/** Rows of one operation on tokens: one for each combination of type and disclosure. */
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
  const rows = [...groups.values()].map((group) =>
    logRow(ctx, caller, {
      operation,
      ...group,
      ...details,
      message: operation === 'read' && group.disclosure === 'revealed' ? TOKEN_REVEALED : tokenMessages[operation],
    }),
  );
  for (const { disclosure, entity_ids } of groups.values()) countShown(caller, disclosure, entity_ids);
  return rows;
};

/** One row for a page of tokens. An entry for each would flood the log. */
export const tokenListLogRow = (ctx: LogClock, caller: Actor, tokens: readonly LoggedToken[]): LogRow => {
  for (const { id, disclosure } of tokens) countShown(caller, disclosure, [id]);
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

/** One row for each search about values, which names the tenant: it may find nothing. */
export const valueSearchLogRow = (ctx: LogClock, caller: Actor & { readonly tenant_id: string }): LogRow => {
  const entity = { entity_type: 'tenant', entity_ids: [caller.tenant_id] };
  return logRow(ctx, caller, { operation: 'read', ...entity, message: VALUES_SEARCHED });
};

/** The log row of an association, which counts as an update of its parent. */
export const linkLogRow = (
  ctx: LogClock,
  caller: Actor,
  parent: { id: string; type: string },
  message: typeof TOKEN_ASSOCIATED | typeof TOKEN_DISSOCIATED,
): LogRow => logRow(ctx, caller, { operation: 'update', entity_type: parent.type, entity_ids: [parent.id], message });
