// Deletes expired rows and keys of all tenants in bounded steps. Several processes may sweep at once.
import { KEYS, LATE_TABLES, TABLES_OF_TENANTS } from '../base/tables.ts';
import type { Pool } from 'pg';
import type { Config } from '../config/config.ts';
import { firstIdAt } from '../crypto/ids.ts';
import { faultOf } from '../db/faults.ts';
import { MAILS_COUNTED_MS } from '../mail/mail-outbox.ts';
import { TOKEN_EXPIRED } from '../db/audit-record.ts';
import { insertLogs, type NewLog } from '../db/audit-rows.ts';
import type { Database } from '../db/database.ts';
import { type ErasedToken, recordErasures } from '../db/erasures.ts';
import { DAY_MS, DELETED_TENANT_GRACE_MS } from '../base/times.ts';

/** Rows that one statement deletes at most, so that it does not hold locks for long. */
export const SWEEP_ROWS_MAX = 1_000;
/** Fewer changes of a tenant's counts are left as they are: adding them up would cost more than it saves. */
const COUNT_CHANGES_MIN = 50;

/** Statements on the table of keys wait for the sweep, and the sweep waits for a backup that reads it: at most this long. */
const KEYS_LOCK_TIMEOUT_MS = 1_000;

const HAS_OLD_KEYS = 'SELECT 1 FROM ephemeral_keys WHERE destroy_at <= $1 LIMIT 1';
const FIND_LIVING_KEYS = 'SELECT id, wrapped, destroy_at FROM ephemeral_keys WHERE destroy_at > $1';
const PUT_KEYS = `
INSERT INTO ephemeral_keys (id, wrapped, destroy_at) SELECT * FROM unnest($1::text[], $2::bytea[], $3::timestamptz[])`;

const DELETE_CVCS = `
DELETE FROM token_cvcs USING (SELECT tenant_id, id FROM token_cvcs WHERE expires_at <= $1 LIMIT $2) AS old
WHERE token_cvcs.tenant_id = old.tenant_id AND token_cvcs.id = old.id AND token_cvcs.expires_at <= $1`;

const FIND_EXPIRED = 'SELECT tenant_id, id FROM tokens WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2';

/**
 * Skips rows that another transaction is changing, until the next sweep: the change may move their expiry. Of one tenant, as
 * all statements that lock or write tokens: on Citus they reach one worker.
 */
const LOCK_EXPIRED = `SELECT id, type, container, created_at FROM tokens WHERE tenant_id = $1 AND id = ANY ($2::text[]) AND expires_at <= $3
FOR UPDATE SKIP LOCKED`;

const DELETE_LOCKED = ['tokens', 'token_cvcs'].map(
  (table) => `DELETE FROM ${table} WHERE tenant_id = $1 AND id = ANY ($2::text[])`,
);

const COUNT_DELETED = `
INSERT INTO token_counts (tenant_id, id, type, change)
SELECT $1::uuid, gen_random_uuid(), type, -count(*) FROM unnest($2::text[]) AS gone(type) GROUP BY type`;

const DELETE_ANSWERS = `
DELETE FROM idempotency_keys USING (SELECT tenant_id, id FROM idempotency_keys WHERE expires_at <= $1 LIMIT $2) AS old
WHERE idempotency_keys.tenant_id = old.tenant_id AND idempotency_keys.id = old.id AND idempotency_keys.expires_at <= $1`;

/** Mails outside the counted time that are sent, dropped or expired. */
const DELETE_MAILS = `
DELETE FROM mail_outbox USING (
  SELECT tenant_id, id FROM mail_outbox WHERE created_at <= $2 AND (sealed IS NULL OR expires_at <= $1) LIMIT $3
) AS old
WHERE mail_outbox.tenant_id = old.tenant_id AND mail_outbox.id = old.id`;

/**
 * Sessions past their absolute end: one that ended by idling stays until then, and opens nothing. Single sign-ons that were not
 * finished, and what is left of sessions that began so. Links that reset passwords.
 */
const DELETE_EXPIRED = (table: 'sessions' | 'sso_flows' | 'sso_sessions' | 'password_resets'): string => `
DELETE FROM ${table} WHERE digest IN (
  SELECT digest FROM ${table} WHERE expires_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED
)`;

/** How long a backend can look up the tokens of an ended session. */
const SESSIONS_KEPT_MS = 24 * 3_600_000;

const DELETE_COLLECT_SESSIONS = `
DELETE FROM collect_sessions WHERE id IN (
  SELECT id FROM collect_sessions WHERE expires_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED
)`;

const DELETE_ATTEMPTS = `
DELETE FROM attempts USING (SELECT digest FROM attempts WHERE ends_at <= $1 LIMIT $2) AS old
WHERE attempts.digest = old.digest AND attempts.ends_at <= $1`;

/** The tokens that a daily limit has counted. The count itself is deleted after them. */
const DELETE_COUNTED_TOKENS = `
DELETE FROM daily_tokens USING (
  SELECT t.tenant_id, t.budget_id, t.token_id FROM daily_budgets b
  JOIN daily_tokens t ON t.tenant_id = b.tenant_id AND t.budget_id = b.id WHERE b.expires_at <= $1 LIMIT $2
) AS old
WHERE daily_tokens.tenant_id = old.tenant_id AND daily_tokens.budget_id = old.budget_id AND daily_tokens.token_id = old.token_id`;

const DELETE_DAILY_BUDGETS = `
DELETE FROM daily_budgets USING (
  SELECT b.tenant_id, b.id FROM daily_budgets b WHERE b.expires_at <= $1
  AND NOT EXISTS (SELECT FROM daily_tokens t WHERE t.tenant_id = b.tenant_id AND t.budget_id = b.id) LIMIT $2
) AS old WHERE daily_budgets.tenant_id = old.tenant_id AND daily_budgets.id = old.id`;

const END_BUDGETS_OF_DELETED_TENANTS = `
UPDATE daily_budgets SET expires_at = $1 FROM deleted_tenants d
WHERE daily_budgets.tenant_id = d.id AND daily_budgets.expires_at > $1`;

/** Deletes the links of expired invitations, so that a clock that is set back does not revive them. */
const END_LINKS = `
DELETE FROM invitation_secrets USING (
  SELECT s.digest FROM invitation_secrets s
  JOIN invitations i ON i.tenant_id = s.tenant_id AND i.id = s.invitation_id WHERE i.expires_at <= $1 LIMIT $2
  FOR UPDATE OF s SKIP LOCKED
) AS old WHERE invitation_secrets.digest = old.digest`;

/** Deletes runs by their ids, which begin with their time. */
export const DELETE_RUNS = `
DELETE FROM runs USING (SELECT tenant_id, id FROM runs WHERE id < $1 ORDER BY id LIMIT $2) AS old
WHERE runs.tenant_id = old.tenant_id AND runs.id = old.id`;

/** Requests with an idempotency key, as runs. */
export const DELETE_FORWARDS = DELETE_RUNS.replaceAll('runs', 'forwards');

/** What is sealed of them lives for a day, by the time of their ids: as long as their keys. */
export const EMPTY_FORWARDS = `
UPDATE forwards SET sealed = NULL FROM (
  SELECT tenant_id, id FROM forwards WHERE id < $1 AND sealed IS NOT NULL ORDER BY id LIMIT $2
) AS old WHERE forwards.tenant_id = old.tenant_id AND forwards.id = old.id`;

export const DELETE_USAGE = `
DELETE FROM usage_hours USING (
  SELECT tenant_id, hour, kind, application_id FROM usage_hours WHERE hour < $1 ORDER BY hour LIMIT $2
) AS old WHERE usage_hours.tenant_id = old.tenant_id AND usage_hours.hour = old.hour AND usage_hours.kind = old.kind
  AND usage_hours.application_id = old.application_id`;

/** How long a draft is kept that its owner has not saved again. */
export const DRAFTS_KEPT_MS = 90 * 24 * 3_600_000;

const DELETE_DRAFTS = `
DELETE FROM code_drafts USING (
  SELECT tenant_id, id FROM code_drafts WHERE modified_at <= $1 ORDER BY modified_at LIMIT $2
) AS old WHERE code_drafts.tenant_id = old.tenant_id AND code_drafts.id = old.id AND code_drafts.modified_at <= $1`;

/** How long deliveries are kept, whatever became of them. */
export const DELIVERIES_KEPT_MS = 30 * 24 * 3_600_000;

const DELETE_DELIVERIES = `
DELETE FROM webhook_deliveries USING (SELECT tenant_id, id FROM webhook_deliveries WHERE id < $1 ORDER BY id LIMIT $2) AS old
WHERE webhook_deliveries.tenant_id = old.tenant_id AND webhook_deliveries.id = old.id`;

/** What no backup has any more. */
const DELETE_ERASURES = `
DELETE FROM erasures USING (
  SELECT tenant_id, id, kind, made_at FROM erasures WHERE erased_at <= $1 ORDER BY erased_at LIMIT $2
) AS old WHERE erasures.tenant_id = old.tenant_id AND erasures.id = old.id AND erasures.kind = old.kind
  AND erasures.made_at = old.made_at`;

/** Merges many changes into one. One statement, so that readers see the state before or after. */
const ADD_UP_COUNTS = `
WITH many AS (
  SELECT tenant_id, type FROM token_counts GROUP BY tenant_id, type HAVING count(*) > ${COUNT_CHANGES_MIN}
), gone AS (
  DELETE FROM token_counts c USING many m WHERE c.tenant_id = m.tenant_id AND c.type = m.type
  RETURNING c.tenant_id, c.type, c.change, c.last_created_at
)
INSERT INTO token_counts (tenant_id, id, type, change, last_created_at)
SELECT tenant_id, gen_random_uuid(), type, sum(change), max(last_created_at) FROM gone GROUP BY tenant_id, type`;

/** Deleted tenants that one step looks after. */
const DELETED_TENANTS_MAX = 1_000;

const FIND_DELETED_TENANTS = `SELECT id FROM deleted_tenants ORDER BY deleted_at LIMIT ${DELETED_TENANTS_MAX}`;

/** Statements on rows of deleted tenants take their ids: where Citus distributes a table, it cannot join one that it does not. */
const DELETE_OF_TENANTS = (table: string): string => {
  const keys = ['tenant_id', ...(KEYS[table] ?? ['id'])];
  return `
DELETE FROM ${table} USING (SELECT ${keys.join(', ')} FROM ${table} WHERE tenant_id = ANY ($1::uuid[]) LIMIT $2) AS old
WHERE ${keys.map((key) => `${table}.${key} = old.${key}`).join(' AND ')} RETURNING ${table}.tenant_id`;
};

/** For the erasure certificates of deleted tenants, in the transaction that deletes the rows: so each row is counted once. */
const COUNT_OF_TENANTS = `
UPDATE erasure_certificates c
SET rows_deleted = jsonb_set(rows_deleted, ARRAY[$1], to_jsonb(coalesce((rows_deleted->>$1)::bigint, 0) + gone.rows))
FROM (SELECT tenant_id, count(*) AS rows FROM unnest($2::uuid[]) AS gone(tenant_id) GROUP BY tenant_id) AS gone
WHERE c.tenant_id = gone.tenant_id AND certificate IS NULL`;

/** Links are deleted before their tokens, in steps: deleting a token would delete all its links in one statement. */
const LINKS_MAX = 5_000;

const DELETE_LINKS = (linked: string, most: string): string => `
DELETE FROM token_associations USING (${linked} LIMIT ${most}) AS old
WHERE token_associations.tenant_id = old.tenant_id AND token_associations.parent_id = old.parent_id
  AND token_associations.child_id = old.child_id RETURNING token_associations.tenant_id`;

const DELETE_LINKS_OF_EXPIRED = DELETE_LINKS(
  `WITH expired AS (SELECT tenant_id, id FROM tokens WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)
  SELECT a.tenant_id, a.parent_id, a.child_id FROM (
    SELECT a.* FROM expired e JOIN token_associations a ON a.tenant_id = e.tenant_id AND a.parent_id = e.id
    UNION ALL
    SELECT a.* FROM expired e JOIN token_associations a ON a.tenant_id = e.tenant_id AND a.child_id = e.id) AS a`,
  '$3',
);

const DELETE_LINKS_OF_TENANTS = DELETE_LINKS(
  'SELECT tenant_id, parent_id, child_id FROM token_associations WHERE tenant_id = ANY ($1::uuid[])',
  '$2',
);

const DELETE_LATE = (table: string): string =>
  `DELETE FROM ${table} WHERE tenant_id = ANY ($1::uuid[]) RETURNING tenant_id`;

const FORGET_DELETED_TENANTS = 'DELETE FROM deleted_tenants WHERE id = ANY ($1::uuid[]) AND deleted_at <= $2';

/**
 * Destroys expired keys together with the file that held them. The bytes of a deleted row stay in its page: VACUUM leaves
 * them there, and VACUUM FULL copies rows that another transaction may still see. TRUNCATE starts a new file, into which
 * the few valid keys are written.
 */
const destroyKeys = async (pool: Pool, now: Date): Promise<void> => {
  if ((await pool.query(HAS_OLD_KEYS, [now])).rowCount === 0) return;
  const client = await pool.connect();
  let broken = false;
  try {
    await client.query(`BEGIN; SET LOCAL lock_timeout = ${KEYS_LOCK_TIMEOUT_MS}; LOCK TABLE ephemeral_keys`);
    const { rows } = await client.query<{ id: string; wrapped: Buffer; destroy_at: Date }>(FIND_LIVING_KEYS, [now]);
    await client.query('TRUNCATE ephemeral_keys');
    const columns = [rows.map(({ id }) => id), rows.map(({ wrapped }) => wrapped), rows.map((row) => row.destroy_at)];
    await client.query(PUT_KEYS, columns);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => (broken = true));
    throw error;
  } finally {
    client.release(broken);
  }
};

const expiryLog = (
  id: string,
  { id: token_id, type: entity_type, container }: ErasedToken & { container: string },
  at: Date,
): NewLog => ({
  id,
  actor_id: null,
  actor_type: 'system',
  entity_type,
  entity_ids: [token_id],
  operation: 'delete',
  message: TOKEN_EXPIRED,
  created_at: at.toISOString(),
  disclosure: 'none',
  outcome: 'success',
  event: { containers: [container] },
});

/**
 * Deletes expired tokens, each with a log row that tells so, in one transaction for each tenant.
 * @param mayGoOn called before each further tenant: a thousand transactions may outlast the lease.
 * @returns how many expired tokens were found; 0 where all of them are being changed.
 */
const deleteExpired = async (
  { statements, logMacs, events }: Pick<Database, 'statements' | 'logMacs' | 'events'>,
  now: Date,
  newLogId: (at: Date) => string,
  mayGoOn: () => Promise<boolean>,
): Promise<number> => {
  const found = (await statements.query(undefined, FIND_EXPIRED, [now, SWEEP_ROWS_MAX])) as {
    tenant_id: string;
    id: string;
  }[];
  let deleted = 0;
  let isFirst = true;
  const beganMs = performance.now();
  for (const [tenant_id, rows] of Map.groupBy(found, (row) => row.tenant_id)) {
    if (!isFirst && !(await mayGoOn())) break;
    isFirst = false;
    await statements.transaction(async (query) => {
      const wanted = rows.map(({ id }) => id);
      const locked = (await query(undefined, LOCK_EXPIRED, [tenant_id, wanted, now])) as (ErasedToken & {
        container: string;
      })[];
      if (locked.length === 0) return;
      const ids = locked.map(({ id }) => id);
      for (const text of DELETE_LOCKED) await query(undefined, text, [tenant_id, ids]);
      await query(undefined, COUNT_DELETED, [tenant_id, locked.map(({ type }) => type)]);
      // Not the time at which the sweep began: streams and trees of the log take no row whose id is minutes old.
      const at = new Date(now.getTime() + performance.now() - beganMs);
      const logs = locked.map((token) => expiryLog(newLogId(at), token, at));
      const signed = logs.map((log) => logMacs.sign(tenant_id, log));
      await insertLogs(query, tenant_id, signed);
      await events.queue(query, tenant_id, events.ofLogs(tenant_id, logs));
      await recordErasures(query, tenant_id, locked);
      deleted += locked.length;
    });
  }
  return deleted === 0 ? 0 : found.length;
};

/** Deletes what is left of deleted tenants, a part at a time. @returns the most rows that one statement deleted. */
const deleteOfTenants = async ({ query, transaction }: Database['statements'], now: Date): Promise<number> => {
  const rows = (await query(undefined, FIND_DELETED_TENANTS, [])) as { id: string }[];
  if (rows.length === 0) return 0;
  const ids = rows.map(({ id }) => id);
  const remove = (table: string, text: string, limit: number[]): Promise<number> =>
    transaction(async (within) => {
      const gone = (await within(undefined, text, [ids, ...limit])) as { tenant_id: string }[];
      if (gone.length > 0) await within(undefined, COUNT_OF_TENANTS, [table, gone.map(({ tenant_id }) => tenant_id)]);
      return gone.length;
    });
  let left = await remove('token_associations', DELETE_LINKS_OF_TENANTS, [LINKS_MAX]);
  for (const table of TABLES_OF_TENANTS)
    if (table !== 'tokens' || left < LINKS_MAX)
      left = Math.max(left, await remove(table, DELETE_OF_TENANTS(table), [SWEEP_ROWS_MAX]));
  for (const table of LATE_TABLES) await remove(table, DELETE_LATE(table), []);
  if (left < SWEEP_ROWS_MAX)
    await query(undefined, FORGET_DELETED_TENANTS, [ids, new Date(now.getTime() - DELETED_TENANT_GRACE_MS)]);
  return left;
};

/**
 * One step of the sweep over every table. The keys of security codes come first, so that a later failure does not delay their
 * destruction. If destroying them fails, the other tables are still swept, and the error is thrown when they are done.
 * @returns whether another step is needed.
 */
export const sweepOnce = async (
  { pool, statements, logMacs, events }: Pick<Database, 'pool' | 'statements' | 'logMacs' | 'events'>,
  now: Date,
  newLogId: (at: Date) => string,
  { erasuresKeptMs, runsKeptMs, usageKeptMs }: Pick<Config, 'erasuresKeptMs' | 'runsKeptMs' | 'usageKeptMs'>,
  mayGoOn: () => Promise<boolean> = async () => true,
): Promise<boolean> => {
  const run = (text: string, values: unknown[] = []): Promise<number> => statements.change(text, values);
  try {
    const keys = await destroyKeys(pool, now).then(
      () => undefined,
      (error: unknown) => ({ error }),
    );
    const cvcs = await run(DELETE_CVCS, [now, SWEEP_ROWS_MAX]);
    const links = await run(DELETE_LINKS_OF_EXPIRED, [now, SWEEP_ROWS_MAX, LINKS_MAX]);
    const expired =
      links === LINKS_MAX ? 0 : await deleteExpired({ statements, logMacs, events }, now, newLogId, mayGoOn);
    const answers = await run(DELETE_ANSWERS, [now, SWEEP_ROWS_MAX]);
    const mails = await run(DELETE_MAILS, [now, new Date(now.getTime() - MAILS_COUNTED_MS), SWEEP_ROWS_MAX]);
    const sessions = await run(DELETE_EXPIRED('sessions'), [now, SWEEP_ROWS_MAX]);
    const flows = await run(DELETE_EXPIRED('sso_flows'), [now, SWEEP_ROWS_MAX]);
    const ssoSessions = await run(DELETE_EXPIRED('sso_sessions'), [now, SWEEP_ROWS_MAX]);
    const resets = await run(DELETE_EXPIRED('password_resets'), [now, SWEEP_ROWS_MAX]);
    const endedBefore = new Date(now.getTime() - SESSIONS_KEPT_MS);
    const collecting = await run(DELETE_COLLECT_SESSIONS, [endedBefore, SWEEP_ROWS_MAX]);
    const attempts = await run(DELETE_ATTEMPTS, [now, SWEEP_ROWS_MAX]);
    const ended = await run(END_LINKS, [now, SWEEP_ROWS_MAX]);
    await run(END_BUDGETS_OF_DELETED_TENANTS, [now]);
    const counted = await run(DELETE_COUNTED_TOKENS, [now, SWEEP_ROWS_MAX]);
    const budgets = await run(DELETE_DAILY_BUDGETS, [now, SWEEP_ROWS_MAX]);
    const erasures = await run(DELETE_ERASURES, [new Date(now.getTime() - erasuresKeptMs), SWEEP_ROWS_MAX]);
    const runs = await run(DELETE_RUNS, [firstIdAt(now.getTime() - runsKeptMs), SWEEP_ROWS_MAX]);
    const forwards = await run(DELETE_FORWARDS, [firstIdAt(now.getTime() - runsKeptMs), SWEEP_ROWS_MAX]);
    const emptied = await run(EMPTY_FORWARDS, [firstIdAt(now.getTime() - DAY_MS), SWEEP_ROWS_MAX]);
    const deliveries = await run(DELETE_DELIVERIES, [firstIdAt(now.getTime() - DELIVERIES_KEPT_MS), SWEEP_ROWS_MAX]);
    const usage = await run(DELETE_USAGE, [new Date(now.getTime() - usageKeptMs), SWEEP_ROWS_MAX]);
    const drafts = await run(DELETE_DRAFTS, [new Date(now.getTime() - DRAFTS_KEPT_MS), SWEEP_ROWS_MAX]);
    await run(ADD_UP_COUNTS);
    const left = await deleteOfTenants(statements, now);
    const counts = [
      cvcs,
      links,
      expired,
      answers,
      mails,
      sessions,
      flows,
      ssoSessions,
      resets,
      collecting,
      attempts,
      ended,
      counted,
      budgets,
      erasures,
      runs,
      forwards,
      emptied,
      deliveries,
      usage,
      drafts,
      left,
    ];
    const isMoreLeft = counts.some((count) => count >= SWEEP_ROWS_MAX);
    if (keys && !isMoreLeft) throw keys.error;
    return isMoreLeft;
  } catch (error) {
    throw faultOf(error);
  }
};
