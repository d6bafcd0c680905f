// Rows of forwarded requests that have an idempotency key, and the claims of their keys. Each change of a state names the states and the
// attempt that it follows: a process that was taken for dead changes nothing.
import type { TenantQuery } from '../../platform/db/database.ts';
import type { Query } from '../../platform/db/statements.ts';
import { type Counted, COUNTED_MAX } from '../../platform/base/pagination.ts';

/**
 * `begun`: nothing was sent yet. `sent`: it is being sent, or its response is awaited. `answered`: the destination responded. `unknown`: it
 * was sent, and no response is known. `failed`: nothing was sent.
 */
export const forwardStates = ['begun', 'sent', 'answered', 'unknown', 'failed'] as const;

export type ForwardState = (typeof forwardStates)[number];

/** Whether the response is stored: with its body, without it, or not at all. */
export const storedAnswers = ['kept', 'not_kept', 'none'] as const;

export type StoredAnswer = (typeof storedAnswers)[number];

export type ForwardRow = {
  id: string;
  state: ForwardState;
  attempts: number;
  sent_at: Date | null;
  answered_at: Date | null;
  actor_id: string;
  actor_type: string;
  proxy_id: string | null;
  replay_of: string | null;
  method: string;
  destination_host: string;
  path_digest: string;
  repeat_digest: string | null;
  token_ids: string[];
  status: number | null;
  answer: StoredAnswer;
  trace_id: string | null;
  sealed: Buffer | null;
};

/** What a request brings. */
export type NewForward = Omit<ForwardRow, 'state' | 'attempts' | 'sent_at' | 'answered_at' | 'status' | 'answer'>;

const COLUMNS = `id, state, attempts, sent_at, answered_at, actor_id, actor_type, proxy_id, replay_of, method, destination_host,
  path_digest, repeat_digest, token_ids, status, answer, trace_id`;

/**
 * How long a process may be silent before its requests count as over. It tells of itself three times in this time. By the clock of
 * the database.
 */
export const LEASE_SECONDS = 30;
const LEASE_END = `now() + interval '${LEASE_SECONDS} seconds'`;

/** `isDead`: its process has died, and nobody has judged it. */
export type FoundForward = { route: string; forward: ForwardRow | undefined; isDead: boolean };

const FIND_BY_KEY = `
SELECT k.route, ${COLUMNS.replaceAll(/\b(\w+)\b/g, 'f.$1')}, f.sealed, f.claimed_until <= now() AS is_dead
FROM idempotency_keys k LEFT JOIN forwards f ON f.tenant_id = k.tenant_id AND f.id = k.claim
WHERE k.tenant_id = $1 AND k.id = $2 AND k.expires_at > $3`;

/** The request that a key stands for. */
export const findByKey = async (
  { query, tenant_id }: TenantQuery,
  key: string,
  now: Date,
): Promise<FoundForward | undefined> => {
  const [row] = (await query('find-forward-by-key', FIND_BY_KEY, [tenant_id, key, now])) as (ForwardRow & {
    route: string;
    id: string | null;
    is_dead: boolean | null;
  })[];
  return row && { route: row.route, forward: row.id === null ? undefined : row, isDead: row.is_dead === true };
};

/** A request with what is sealed of it. */
export const findForward = async ({ query, tenant_id }: TenantQuery, id: string): Promise<ForwardRow | undefined> => {
  const text = `SELECT ${COLUMNS}, sealed FROM forwards WHERE tenant_id = $1 AND id = $2::uuid`;
  return ((await query('find-forward', text, [tenant_id, id])) as ForwardRow[])[0];
};

const FIND_BY_TRACE = `
SELECT id FROM forwards WHERE tenant_id = $1 AND id >= $2::uuid AND id < $3::uuid AND trace_id = $4 ORDER BY id LIMIT 1`;

/** The first request with a trace id, of those with these ids. */
export const findForwardByTrace = async (
  { query, tenant_id }: TenantQuery,
  trace_id: string,
  { from_id, to_id }: Pick<ForwardFilter, 'from_id' | 'to_id'>,
): Promise<string | undefined> =>
  ((await query('find-forward-by-trace', FIND_BY_TRACE, [tenant_id, from_id, to_id, trace_id])) as { id: string }[])[0]
    ?.id;

export type ForwardFilter = {
  proxy_id?: string | undefined;
  state?: ForwardState | undefined;
  /** The id is at least this: ids are in the order of time. */
  from_id?: string | undefined;
  /** The id is below this. */
  to_id?: string | undefined;
};

const whereOf = (tenant_id: string, { proxy_id, state, from_id, to_id }: ForwardFilter, after?: string) => {
  const values: unknown[] = [tenant_id];
  const where = ['tenant_id = $1'];
  for (const [condition, value] of [
    ['proxy_id =', proxy_id],
    ['state =', state],
    ['id >=', from_id],
    ['id <', to_id],
    ['id <', after],
  ] as const)
    if (value !== undefined)
      where.push(`${condition} $${values.push(value)}${condition === 'state =' ? '' : '::uuid'}`);
  return { where: where.join(' AND '), values };
};

export type ListedForward = Omit<ForwardRow, 'sealed'>;

/** Newest first. */
export const listForwardRows = async (
  { query, tenant_id }: TenantQuery,
  filter: ForwardFilter,
  start: { offset?: number; after?: string },
  limit: number,
): Promise<ListedForward[]> => {
  const { where, values } = whereOf(tenant_id, filter, start.after);
  const text = `SELECT ${COLUMNS} FROM forwards WHERE ${where} ORDER BY id DESC LIMIT ${limit} OFFSET ${start.offset ?? 0}`;
  return (await query(undefined, text, values)) as ListedForward[];
};

/** How many there are, up to COUNTED_MAX. */
export const countForwards = async ({ query, tenant_id }: TenantQuery, filter: ForwardFilter): Promise<Counted> => {
  const { where, values } = whereOf(tenant_id, filter);
  const text = `SELECT count(*)::int AS count FROM (SELECT 1 FROM forwards WHERE ${where} LIMIT ${COUNTED_MAX + 1}) AS counted`;
  const [{ count }] = (await query(undefined, text, values)) as [{ count: number }];
  return { total: Math.min(count, COUNTED_MAX), capped: count > COUNTED_MAX };
};

/** A key of this kind is free only when it has expired: its claim outlives the process that made it. */
const CLAIM = `
INSERT INTO idempotency_keys (tenant_id, id, claim, route, claimed_until, expires_at) VALUES ($1, $2, $3, $4, $5, $5)
ON CONFLICT (tenant_id, id) DO UPDATE SET claim = excluded.claim, route = excluded.route,
  claimed_until = excluded.claimed_until, expires_at = excluded.expires_at, status = NULL, sealed = NULL
WHERE idempotency_keys.expires_at <= $6 RETURNING claim`;

const INSERT = `
INSERT INTO forwards (tenant_id, id, state, claimed_until, actor_id, actor_type, proxy_id, replay_of, method, destination_host,
  path_digest, repeat_digest, token_ids, trace_id, sealed)
VALUES ($1, $2, 'begun', ${LEASE_END}, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`;

export type NewClaim = { id: string; route: string; expires_at: Date };

/** @returns false where another request has the key: then nothing must be committed. */
export const insertForward = async (
  query: Query,
  tenant_id: string,
  { id, ...row }: NewForward,
  claim: NewClaim,
  now: Date,
): Promise<boolean> => {
  const claimed = [tenant_id, claim.id, id, claim.route, claim.expires_at, now];
  if ((await query('claim-forward', CLAIM, claimed)).length === 0) return false;
  const { actor_id, actor_type, proxy_id, replay_of, method, destination_host, path_digest, repeat_digest } = row;
  const about = [actor_id, actor_type, proxy_id, replay_of, method, destination_host, path_digest, repeat_digest];
  await query('insert-forward', INSERT, [tenant_id, id, ...about, row.token_ids, row.trace_id, row.sealed]);
  return true;
};

/** An attempt of a process. */
export type Attempt = { id: string; attempts: number };

const BEGIN_AGAIN = `
UPDATE forwards SET state = 'begun', attempts = attempts + 1, claimed_until = ${LEASE_END}, destination_host = $5, path_digest = $6,
  repeat_digest = $7, sealed = coalesce($8, sealed)
WHERE tenant_id = $1 AND id = $2 AND attempts = $3 AND state = $4 RETURNING id`;

/**
 * Begins another attempt of a request that failed, or whose destination recognises it. `sealed`: null where it stays as it is.
 * @returns false where another process was first.
 */
export const beginAgain = async (
  query: Query,
  tenant_id: string,
  { id, attempts, state }: Attempt & Pick<ForwardRow, 'state'>,
  to: Pick<ForwardRow, 'destination_host' | 'path_digest' | 'repeat_digest' | 'sealed'>,
): Promise<boolean> => {
  const where = [to.destination_host, to.path_digest, to.repeat_digest, to.sealed];
  return (await query('begin-forward-again', BEGIN_AGAIN, [tenant_id, id, attempts, state, ...where])).length > 0;
};

const LOCK_REPLAYED =
  'SELECT 1 FROM forwards WHERE tenant_id = $1 AND id = $2 AND state = $3 AND attempts = $4 FOR SHARE';

/** Until the transaction ends, no attempt of the request begins. @returns false where it is no longer as it was read. */
export const lockReplayed = async (
  query: Query,
  tenant_id: string,
  { id, state, attempts }: Attempt & Pick<ForwardRow, 'state'>,
): Promise<boolean> =>
  (await query('lock-replayed-forward', LOCK_REPLAYED, [tenant_id, id, state, attempts])).length > 0;

/** Ids are in the order of time: no partition of an earlier month is read. */
const FIND_REPLAY = 'SELECT id FROM forwards WHERE tenant_id = $1 AND id > $2 AND replay_of = $2 ORDER BY id LIMIT 1';

/** The first replay of a request, in whatever state: that may begin again, and may have been replayed itself. */
export const findReplay = async (query: Query, tenant_id: string, id: string): Promise<string | undefined> =>
  ((await query('find-forward-replay', FIND_REPLAY, [tenant_id, id])) as { id: string }[])[0]?.id;

const SENDING = `
UPDATE forwards SET state = 'sent', sent_at = now(), claimed_until = ${LEASE_END}
WHERE tenant_id = $1 AND id = $2 AND attempts = $3 AND state IN ('begun', 'sent') RETURNING id`;

/** @returns false where the attempt was taken for dead: nothing may be sent. */
export const noteSending = async ({ query, tenant_id }: TenantQuery, { id, attempts }: Attempt): Promise<boolean> =>
  (await query('note-forward-sending', SENDING, [tenant_id, id, attempts])).length > 0;

/** A response is known whatever others took the attempt for. */
const ANSWERED = `
UPDATE forwards SET state = 'answered', status = $4, answer = $5, sealed = coalesce($6, sealed), answered_at = now(),
  claimed_until = NULL
WHERE tenant_id = $1 AND id = $2 AND attempts = $3 AND state <> 'answered'`;

export const noteAnswered = async (
  { query, tenant_id }: TenantQuery,
  { id, attempts }: Attempt,
  { status, answer, sealed }: { status: number; answer: StoredAnswer; sealed: Buffer | undefined },
): Promise<void> => {
  await query('note-forward-answered', ANSWERED, [tenant_id, id, attempts, status, answer, sealed ?? null]);
};

/** What the end of an attempt says of its request, for an event. */
export type EndedForward = Pick<
  ForwardRow,
  'id' | 'state' | 'attempts' | 'proxy_id' | 'destination_host' | 'actor_id' | 'actor_type'
>;
const ENDED = 'id, state, attempts, proxy_id, destination_host, actor_id, actor_type';

const FAILED = `
UPDATE forwards SET state = CASE WHEN $4 THEN 'unknown' ELSE 'failed' END, sent_at = CASE WHEN $4 THEN sent_at END, claimed_until = NULL
WHERE tenant_id = $1 AND id = $2 AND attempts = $3 AND state IN ('begun', 'sent', 'unknown') RETURNING ${ENDED}`;

/** @param wasSent whether the destination may have got this attempt or one before. */
export const noteFailed = async (
  query: Query,
  tenant_id: string,
  { id, attempts }: Attempt,
  wasSent: boolean,
): Promise<EndedForward[]> =>
  (await query('note-forward-failed', FAILED, [tenant_id, id, attempts, wasSent])) as EndedForward[];

const RENEW = `
UPDATE forwards SET claimed_until = ${LEASE_END} WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) AND claimed_until IS NOT NULL`;

export const renewLeases = async ({ query, tenant_id }: TenantQuery, ids: readonly string[]): Promise<void> => {
  await query('renew-forward-leases', RENEW, [tenant_id, ids]);
};

/** Those of processes that died. Where nothing was sent they have failed, else their outcome is unknown. */
const JUDGE = `
UPDATE forwards SET state = CASE WHEN sent_at IS NULL THEN 'failed' ELSE 'unknown' END, claimed_until = NULL
WHERE tenant_id = $1 AND claimed_until <= now() RETURNING ${ENDED}`;

export const judgeDead = async (query: Query, tenant_id: string): Promise<EndedForward[]> =>
  (await query('judge-dead-forwards', JUDGE, [tenant_id])) as EndedForward[];

const HAS_DEAD = 'SELECT 1 FROM forwards WHERE tenant_id = $1 AND claimed_until <= now() LIMIT 1';

export const hasDead = async ({ query, tenant_id }: TenantQuery): Promise<boolean> =>
  (await query('has-dead-forwards', HAS_DEAD, [tenant_id])).length > 0;

const FIND_TENANTS = 'SELECT DISTINCT tenant_id FROM forwards WHERE claimed_until <= now() LIMIT $1';

/** Tenants with requests of processes that died. */
export const findTenantsWithDead = async (query: Query, most: number): Promise<string[]> =>
  ((await query('find-dead-forwards', FIND_TENANTS, [most])) as { tenant_id: string }[]).map((row) => row.tenant_id);
