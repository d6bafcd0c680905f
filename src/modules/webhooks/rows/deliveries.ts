// Rows of deliveries: lists, claims and ends them. Several processes may claim at once.
import { type Counted, COUNTED_MAX } from '../../../platform/base/pagination.ts';
import type { Database, TenantDatabase } from '../../../platform/db/database.ts';
import type { Query } from '../../../platform/db/statements.ts';

/** `dead`: no attempt is left. A caller may replay a delivery that does not wait. */
export const deliveryStates = ['waiting', 'delivered', 'dead'] as const;

export type DeliveryState = (typeof deliveryStates)[number];

export type StoredDelivery = {
  id: string;
  webhook_id: string;
  type: string;
  entity_id: string;
  state: DeliveryState;
  attempts: number;
  due_at: Date;
  attempted_at: Date | null;
  status: number | null;
  error: string | null;
};

const COLUMNS = 'id, webhook_id, type, entity_id, state, attempts, due_at, attempted_at, status, error';

type Filter = { webhook_id: string; state: DeliveryState | undefined };

const WHERE = 'tenant_id = $1 AND webhook_id = $2::uuid AND ($3::text IS NULL OR state = $3)';

type OfTenant = Pick<TenantDatabase, 'tenant_id' | 'query'>;

/** Up to COUNTED_MAX. */
export const countDeliveries = async ({ tenant_id, query }: OfTenant, filter: Filter): Promise<Counted> => {
  const text = `SELECT count(*)::int AS count FROM (
SELECT FROM webhook_deliveries WHERE ${WHERE} LIMIT ${COUNTED_MAX + 1}) AS counted`;
  const values = [tenant_id, filter.webhook_id, filter.state ?? null];
  const [{ count }] = (await query('count-deliveries', text, values)) as [{ count: number }];
  return { total: Math.min(count, COUNTED_MAX), capped: count > COUNTED_MAX };
};

/** Newest first. */
export const listDeliveryRows = async (
  { tenant_id, query }: OfTenant,
  { webhook_id, state }: Filter,
  offset: number,
  limit: number,
): Promise<StoredDelivery[]> =>
  (await query(
    'list-deliveries',
    `SELECT ${COLUMNS} FROM webhook_deliveries WHERE ${WHERE} ORDER BY id DESC LIMIT $5 OFFSET $4`,
    [tenant_id, webhook_id, state ?? null, offset, limit],
  )) as StoredDelivery[];

/** Locks the row within a transaction. */
export const lockDelivery = async (
  { tenant_id, query }: { tenant_id: string; query: Query },
  { webhook_id, id }: { webhook_id: string; id: string },
): Promise<StoredDelivery | undefined> => {
  const text = `SELECT ${COLUMNS} FROM webhook_deliveries WHERE tenant_id = $1 AND webhook_id = $2::uuid AND id = $3::uuid FOR UPDATE`;
  return ((await query('lock-delivery', text, [tenant_id, webhook_id, id])) as StoredDelivery[])[0];
};

const REPLAY = `
UPDATE webhook_deliveries SET state = 'waiting', attempts = 0, due_at = $3, queued_at = clock_timestamp(), error = NULL, status = NULL
WHERE tenant_id = $1 AND id = $2::uuid RETURNING ${COLUMNS}`;

/** Sends it again, after what waits of its entity. @param id of a delivery that is locked. */
export const replayRow = async (
  { tenant_id, query }: { tenant_id: string; query: Query },
  id: string,
  now: Date,
): Promise<StoredDelivery> => {
  const [row] = await query('replay-delivery', REPLAY, [tenant_id, id, now]);
  return row as StoredDelivery;
};

const COUNT_PINGS = `
SELECT count(*)::int AS count FROM (
  SELECT FROM webhook_deliveries WHERE tenant_id = $1 AND webhook_id = $2::uuid AND state = 'waiting' AND entity_id = $3 LIMIT $4
) AS waiting`;

/** Waiting deliveries of one entity, up to a number. */
export const countWaitingOf = async (
  { tenant_id, query }: { tenant_id: string; query: Query },
  { webhook_id, entity_id }: { webhook_id: string; entity_id: string },
  most: number,
): Promise<number> => {
  const [row] = (await query('count-waiting-of', COUNT_PINGS, [tenant_id, webhook_id, entity_id, most])) as {
    count: number;
  }[];
  return row?.count ?? 0;
};

const INSERT_ONE = `
INSERT INTO webhook_deliveries (tenant_id, id, webhook_id, type, entity_id, event, mac, due_at, queued_at)
VALUES ($1, $2::uuid, $3::uuid, $4, $5, $6, $7::uuid, $8, clock_timestamp()) RETURNING ${COLUMNS}`;

/** A delivery for one webhook alone. */
export const insertDelivery = async (
  { tenant_id, query }: { tenant_id: string; query: Query },
  row: { id: string; webhook_id: string; type: string; entity_id: string; event: string; mac: string; due_at: Date },
): Promise<StoredDelivery> => {
  const { id, webhook_id, type, entity_id, event, mac, due_at } = row;
  const values = [tenant_id, id, webhook_id, type, entity_id, event, mac, due_at];
  const [made] = await query('insert-delivery', INSERT_ONE, values);
  return made as StoredDelivery;
};

/** The webhooks with waiting deliveries, one probe of the index each, however many wait. */
const WAITING_WEBHOOKS = `
WITH RECURSIVE waiting AS (
  (SELECT tenant_id, webhook_id FROM webhook_deliveries WHERE state = 'waiting' ORDER BY tenant_id, webhook_id LIMIT 1)
  UNION ALL
  SELECT next.* FROM waiting AS w CROSS JOIN LATERAL (
    SELECT tenant_id, webhook_id FROM webhook_deliveries
    WHERE state = 'waiting' AND (tenant_id, webhook_id) > (w.tenant_id, w.webhook_id)
    ORDER BY tenant_id, webhook_id LIMIT 1
  ) AS next
)`;

const FIND_DUE = `${WAITING_WEBHOOKS}
SELECT w.tenant_id, w.id AS webhook_id FROM waiting JOIN webhooks w ON w.tenant_id = waiting.tenant_id AND w.id = waiting.webhook_id
JOIN tenants t ON t.id = w.tenant_id
WHERE w.status = 'enabled' AND EXISTS (
  SELECT FROM webhook_deliveries d
  WHERE d.tenant_id = w.tenant_id AND d.webhook_id = w.id AND d.state = 'waiting' AND d.due_at <= $1
)`;

export type DueWebhook = { tenant_id: string; webhook_id: string };

/** Webhooks of all tenants with a delivery that is due. @throws unavailable. */
export const findDueWebhooks = async ({ statements }: Pick<Database, 'statements'>, now: Date): Promise<DueWebhook[]> =>
  (await statements.query('find-due-webhooks', FIND_DUE, [now])) as DueWebhook[];

/** Due deliveries of a webhook that one claim looks at: of those that wait for an earlier one of their entity it moves so many aside. */
const LOOKED_AT_MAX = 200;

const LOCK_DUE = `
SELECT id FROM webhook_deliveries
WHERE tenant_id = $1 AND webhook_id = $2::uuid AND state = 'waiting' AND due_at <= $3
ORDER BY due_at, queued_at LIMIT ${LOOKED_AT_MAX} FOR UPDATE SKIP LOCKED`;

/**
 * The second statement of a claim: it sees what was committed until the rows were locked, so a delivery is moved aside only while the
 * earlier one of its entity still waits, and the end of that one wakes it (WAKE_NEXT), which waits for the lock.
 */
const CLAIM = `
WITH looked AS (
  SELECT d.id, d.due_at, d.queued_at, (
    SELECT max(e.due_at) FROM webhook_deliveries e
    WHERE e.tenant_id = $1 AND e.webhook_id = $2::uuid AND e.state = 'waiting' AND e.entity_id = d.entity_id AND e.queued_at < d.queued_at
  ) AS after
  FROM webhook_deliveries d WHERE d.tenant_id = $1 AND d.id = ANY ($3::uuid[])
), claimed AS (
  UPDATE webhook_deliveries d SET attempts = d.attempts + 1, due_at = $5, attempted_at = $4
  WHERE d.tenant_id = $1 AND d.id IN (SELECT id FROM looked WHERE after IS NULL ORDER BY due_at, queued_at LIMIT $6)
  RETURNING d.id, d.webhook_id, d.type, d.entity_id, d.event, d.mac, d.count, d.sealed, d.attempts
), aside AS (
  UPDATE webhook_deliveries d SET due_at = greatest(l.after, $5) FROM looked l
  WHERE d.tenant_id = $1 AND d.id = l.id AND l.after IS NOT NULL
)
SELECT * FROM claimed`;

export type ClaimedDelivery = {
  id: string;
  webhook_id: string;
  type: string;
  entity_id: string;
  event: string;
  mac: string;
  count: number | null;
  /** The body, from the second attempt on. */
  sealed: Uint8Array | null;
  /** Including this one. */
  attempts: number;
};

/**
 * Takes deliveries that are due, the first of each entity. If this process dies, another one takes them after the lease.
 * @returns `isMore`: as many were looked at as one claim may, so that more may be due.
 */
export const claimDeliveries = async (
  { tenant_id, transaction }: Pick<TenantDatabase, 'tenant_id' | 'transaction'>,
  webhook_id: string,
  { now, leaseMs, limit }: { now: Date; leaseMs: number; limit: number },
): Promise<{ claimed: ClaimedDelivery[]; isMore: boolean }> =>
  transaction(async (query) => {
    const locked = (await query('lock-due-deliveries', LOCK_DUE, [tenant_id, webhook_id, now])) as { id: string }[];
    if (locked.length === 0) return { claimed: [], isMore: false };
    const ids = locked.map(({ id }) => id);
    const values = [tenant_id, webhook_id, ids, now, new Date(now.getTime() + leaseMs), limit];
    const claimed = (await query('claim-deliveries', CLAIM, values)) as ClaimedDelivery[];
    return { claimed, isMore: locked.length === LOOKED_AT_MAX || claimed.length === limit };
  });

const FINISH = `
UPDATE webhook_deliveries SET state = $4, due_at = $5, status = $6, error = $7, sealed = $8
WHERE tenant_id = $1 AND id = $2::uuid AND attempts = $3 AND state = 'waiting' RETURNING id`;

/** A statement of its own, after the end is committed: see CLAIM. */
const WAKE_NEXT = `
UPDATE webhook_deliveries SET due_at = $4 WHERE tenant_id = $1 AND id = (
  SELECT id FROM webhook_deliveries
  WHERE tenant_id = $1 AND webhook_id = $2::uuid AND state = 'waiting' AND entity_id = $3 ORDER BY queued_at LIMIT 1
) AND attempts = 0 AND due_at > $4 RETURNING id`;

export type Finish = {
  state: DeliveryState;
  due_at: Date;
  status: number | null;
  error: string | null;
  sealed: Uint8Array | null;
};

/** Writes how an attempt ended, unless another process has claimed the delivery since. @returns whether it was written. */
export const finishDelivery = async (
  { tenant_id, query }: OfTenant,
  { id, attempts }: Pick<ClaimedDelivery, 'id' | 'attempts'>,
  { state, due_at, status, error, sealed }: Finish,
): Promise<boolean> => {
  const values = [tenant_id, id, attempts, state, due_at, status, error, sealed];
  return (await query('finish-delivery', FINISH, values)).length > 0;
};

/** The next delivery of an entity is due now. @returns whether one waited. */
export const wakeNext = async (
  { tenant_id, query }: OfTenant,
  { webhook_id, entity_id }: Pick<ClaimedDelivery, 'webhook_id' | 'entity_id'>,
  now: Date,
): Promise<boolean> =>
  (await query('wake-next-delivery', WAKE_NEXT, [tenant_id, webhook_id, entity_id, now])).length > 0;

const COUNT_WAITING = `
SELECT tenant_id, webhook_id, count(*)::int AS count FROM webhook_deliveries WHERE state = 'waiting' GROUP BY tenant_id, webhook_id`;

export type WaitingDeliveries = { tenant_id: string; webhook_id: string; count: number };

/** How many deliveries wait, by webhook. @throws unavailable. */
export const countWaiting = async ({ statements }: Pick<Database, 'statements'>): Promise<WaitingDeliveries[]> =>
  (await statements.query('count-waiting-deliveries', COUNT_WAITING, [])) as WaitingDeliveries[];
