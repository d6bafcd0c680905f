// What has outlived its time, removed in bounded bites, in every tenant. Safe beside other processes that sweep too.
import type { Pool } from 'pg';
import { faultOf } from './faults.ts';
import { MAILS_COUNTED_MS } from '../mail/mail-outbox.ts';
import type { Database } from './database.ts';

/** Rows a sweep removes at a time, so that no statement holds locks for long. */
export const SWEEP_ROWS_MAX = 1_000;
/** Changes of a tenant's counts that are let stand: below it, adding them up costs more than it saves. */
const COUNT_CHANGES_MIN = 50;
/** A request under way when its tenant was deleted may still write; after this nothing does, and the last trace goes. */
const DELETED_TENANT_GRACE_MS = 10 * 60_000;

/** What wants the table of keys waits behind the sweep, and the sweep behind a backup that reads it: not longer than this. */
const KEYS_LOCK_TIMEOUT_MS = 1_000;

const HAS_OLD_KEYS = 'SELECT 1 FROM ephemeral_keys WHERE destroy_at <= $1 LIMIT 1';
const FIND_LIVING_KEYS = 'SELECT id, wrapped, destroy_at FROM ephemeral_keys WHERE destroy_at > $1';
const PUT_KEYS = `
INSERT INTO ephemeral_keys (id, wrapped, destroy_at) SELECT * FROM unnest($1::text[], $2::bytea[], $3::timestamptz[])`;

const DELETE_CVCS = `
DELETE FROM token_cvcs USING (SELECT tenant_id, id FROM token_cvcs WHERE expires_at <= $1 LIMIT $2) AS old
WHERE token_cvcs.tenant_id = old.tenant_id AND token_cvcs.id = old.id AND token_cvcs.expires_at <= $1`;

/** What somebody changes at this moment waits for the next sweep: the delete must see what the change brought. */
const LOCK_EXPIRED = `SELECT tenant_id, id FROM tokens WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2
FOR UPDATE SKIP LOCKED`;

/** Deletes what another process has not deleted meanwhile, each with its log row. */
const DELETE_EXPIRED = `
WITH expired AS (
  SELECT * FROM json_to_recordset($2::json) AS r(tenant_id uuid, id text, log_id uuid)
), gone AS (
  DELETE FROM tokens t USING expired e WHERE t.tenant_id = e.tenant_id AND t.id = e.id AND t.expires_at <= $1
  RETURNING t.tenant_id, t.id, t.type, e.log_id
), cvcs AS (
  DELETE FROM token_cvcs c USING gone g WHERE c.tenant_id = g.tenant_id AND c.id = g.id
), counts AS (
  INSERT INTO token_counts (tenant_id, id, type, change)
  SELECT tenant_id, gen_random_uuid(), type, -count(*) FROM gone GROUP BY tenant_id, type
)
INSERT INTO audit_log (tenant_id, id, actor_type, entity_type, entity_ids, operation, message, created_at)
SELECT tenant_id, log_id, 'system', type, ARRAY[id], 'delete', 'Token expired', $1 FROM gone`;

const DELETE_ANSWERS = `
DELETE FROM idempotency_keys USING (SELECT tenant_id, id FROM idempotency_keys WHERE expires_at <= $1 LIMIT $2) AS old
WHERE idempotency_keys.tenant_id = old.tenant_id AND idempotency_keys.id = old.id AND idempotency_keys.expires_at <= $1`;

/** What counts no more, and is sent, dropped, or not worth sending. */
const DELETE_MAILS = `
DELETE FROM mail_outbox USING (
  SELECT tenant_id, id FROM mail_outbox WHERE created_at <= $2 AND (sealed IS NULL OR expires_at <= $1) LIMIT $3
) AS old
WHERE mail_outbox.tenant_id = old.tenant_id AND mail_outbox.id = old.id`;

/** What is not ended by its end is ended by idling; what is left of either opens nothing. */
const DELETE_SESSIONS = `
DELETE FROM sessions WHERE digest IN (
  SELECT digest FROM sessions WHERE expires_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED
)`;

/** How long a backend can look up what an ended session has created. */
const SESSIONS_KEPT_MS = 24 * 3_600_000;

const DELETE_COLLECT_SESSIONS = `
DELETE FROM collect_sessions WHERE id IN (
  SELECT id FROM collect_sessions WHERE expires_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED
)`;

const DELETE_ATTEMPTS = `
DELETE FROM attempts USING (SELECT digest FROM attempts WHERE ends_at <= $1 LIMIT $2) AS old
WHERE attempts.digest = old.digest AND attempts.ends_at <= $1`;

/** The tokens that a daily limit counted, and then the count itself. */
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

/** Links of invitations that are expired: a clock that is set back finds none that it could revive. */
const END_LINKS = `
DELETE FROM invitation_secrets USING (
  SELECT s.digest FROM invitation_secrets s
  JOIN invitations i ON i.tenant_id = s.tenant_id AND i.id = s.invitation_id WHERE i.expires_at <= $1 LIMIT $2
  FOR UPDATE OF s SKIP LOCKED
) AS old WHERE invitation_secrets.digest = old.digest`;

/** What no backup has any more. */
const DELETE_ERASURES = `
DELETE FROM erasures USING (
  SELECT tenant_id, id, kind, made_at FROM erasures WHERE erased_at <= $1 ORDER BY erased_at LIMIT $2
) AS old WHERE erasures.tenant_id = old.tenant_id AND erasures.id = old.id AND erasures.kind = old.kind
  AND erasures.made_at = old.made_at`;

/** Many changes become one. Whoever reads sees them before or after, never in between: it is one statement. */
const ADD_UP_COUNTS = `
WITH many AS (
  SELECT tenant_id, type FROM token_counts GROUP BY tenant_id, type HAVING count(*) > ${COUNT_CHANGES_MIN}
), gone AS (
  DELETE FROM token_counts c USING many m WHERE c.tenant_id = m.tenant_id AND c.type = m.type
  RETURNING c.tenant_id, c.type, c.change, c.last_created_at
)
INSERT INTO token_counts (tenant_id, id, type, change, last_created_at)
SELECT tenant_id, gen_random_uuid(), type, sum(change), max(last_created_at) FROM gone GROUP BY tenant_id, type`;

const DELETE_OF_DELETED_TENANTS = `
DELETE FROM tokens USING (
  SELECT t.tenant_id, t.id FROM deleted_tenants d JOIN tokens t ON t.tenant_id = d.id LIMIT $1
) AS old WHERE tokens.tenant_id = old.tenant_id AND tokens.id = old.id`;

/** Links go before their tokens, so many at a time: a token may have any number of them, and would take all along. */
const LINKS_MAX = 5_000;

const DELETE_LINKS = (linked: string, most: string): string => `
DELETE FROM token_associations USING (${linked} LIMIT ${most}) AS old
WHERE token_associations.tenant_id = old.tenant_id AND token_associations.parent_id = old.parent_id
  AND token_associations.child_id = old.child_id`;

const DELETE_LINKS_OF_EXPIRED = DELETE_LINKS(
  `WITH expired AS (SELECT tenant_id, id FROM tokens WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)
  SELECT a.tenant_id, a.parent_id, a.child_id FROM (
    SELECT a.* FROM expired e JOIN token_associations a ON a.tenant_id = e.tenant_id AND a.parent_id = e.id
    UNION ALL
    SELECT a.* FROM expired e JOIN token_associations a ON a.tenant_id = e.tenant_id AND a.child_id = e.id) AS a`,
  '$3',
);

const DELETE_LINKS_OF_DELETED_TENANTS = DELETE_LINKS(
  `SELECT a.tenant_id, a.parent_id, a.child_id FROM deleted_tenants d JOIN token_associations a ON a.tenant_id = d.id`,
  '$1',
);

const LEFT_OF_DELETED_TENANTS = [
  'token_cvcs',
  'idempotency_keys',
  'token_counts',
  'request_rates',
  'applications',
  'collect_sessions',
  'reactors',
  'reactor_formulas',
  'proxies',
  'invitations',
  'members',
].map(
  (table) => `
DELETE FROM ${table} USING (
  SELECT t.tenant_id, t.id FROM deleted_tenants d JOIN ${table} t ON t.tenant_id = d.id LIMIT $1
) AS old WHERE ${table}.tenant_id = old.tenant_id AND ${table}.id = old.id`,
);

const DELETE_KEYS_OF_DELETED_TENANTS = ['api_keys', 'proxy_keys', 'invitation_secrets', 'memberships', 'sessions'].map(
  (table) => `DELETE FROM ${table} USING deleted_tenants d WHERE ${table}.tenant_id = d.id`,
);

const FORGET_DELETED_TENANTS = `
DELETE FROM deleted_tenants d WHERE d.deleted_at <= $1
AND NOT EXISTS (SELECT FROM tokens t WHERE t.tenant_id = d.id)`;

/**
 * Destroys keys with the file they were in. A deleted row's bytes stay in its page: VACUUM leaves them there, and VACUUM
 * FULL copies what another transaction may still see. TRUNCATE begins a new file, for the few keys that live on.
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

/**
 * One bite of everything. The keys of CVCs come first: whatever fails behind them, what they sealed is gone. What keeps
 * them from being destroyed now keeps nothing else, and is thrown when nothing else is left.
 * @returns whether something was left for another bite.
 */
export const sweepOnce = async (
  { pool, statements }: Pick<Database, 'pool' | 'statements'>,
  now: Date,
  newLogId: (at: Date) => string,
  erasuresKeptMs: number,
): Promise<boolean> => {
  const run = async (text: string, values: unknown[] = []): Promise<number> =>
    (await pool.query(text, values)).rowCount ?? 0;
  try {
    const keys = await destroyKeys(pool, now).then(
      () => undefined,
      (error: unknown) => ({ error }),
    );
    const cvcs = await run(DELETE_CVCS, [now, SWEEP_ROWS_MAX]);
    const links = await run(DELETE_LINKS_OF_EXPIRED, [now, SWEEP_ROWS_MAX, LINKS_MAX]);
    const expired = await statements.transaction(async (query) => {
      if (links === LINKS_MAX) return 0;
      const rows = (await query(undefined, LOCK_EXPIRED, [now, SWEEP_ROWS_MAX])) as { tenant_id: string; id: string }[];
      const logged = rows.map((row) => ({ ...row, log_id: newLogId(now) }));
      if (rows.length > 0) await query(undefined, DELETE_EXPIRED, [now, JSON.stringify(logged)]);
      return rows.length;
    });
    const answers = await run(DELETE_ANSWERS, [now, SWEEP_ROWS_MAX]);
    const mails = await run(DELETE_MAILS, [now, new Date(now.getTime() - MAILS_COUNTED_MS), SWEEP_ROWS_MAX]);
    const sessions = await run(DELETE_SESSIONS, [now, SWEEP_ROWS_MAX]);
    const endedBefore = new Date(now.getTime() - SESSIONS_KEPT_MS);
    const collecting = await run(DELETE_COLLECT_SESSIONS, [endedBefore, SWEEP_ROWS_MAX]);
    const attempts = await run(DELETE_ATTEMPTS, [now, SWEEP_ROWS_MAX]);
    const ended = await run(END_LINKS, [now, SWEEP_ROWS_MAX]);
    await run(END_BUDGETS_OF_DELETED_TENANTS, [now]);
    const counted = await run(DELETE_COUNTED_TOKENS, [now, SWEEP_ROWS_MAX]);
    const budgets = await run(DELETE_DAILY_BUDGETS, [now, SWEEP_ROWS_MAX]);
    const erasures = await run(DELETE_ERASURES, [new Date(now.getTime() - erasuresKeptMs), SWEEP_ROWS_MAX]);
    await run(ADD_UP_COUNTS);
    let left = await run(DELETE_LINKS_OF_DELETED_TENANTS, [LINKS_MAX]);
    if (left < LINKS_MAX) left = await run(DELETE_OF_DELETED_TENANTS, [SWEEP_ROWS_MAX]);
    for (const text of LEFT_OF_DELETED_TENANTS) left = Math.max(left, await run(text, [SWEEP_ROWS_MAX]));
    for (const text of DELETE_KEYS_OF_DELETED_TENANTS) await run(text);
    await run(FORGET_DELETED_TENANTS, [new Date(now.getTime() - DELETED_TENANT_GRACE_MS)]);
    const counts = [
      cvcs,
      links,
      expired,
      answers,
      mails,
      sessions,
      collecting,
      attempts,
      ended,
      counted,
      budgets,
      erasures,
      left,
    ];
    const isMoreLeft = counts.some((count) => count >= SWEEP_ROWS_MAX);
    if (keys && !isMoreLeft) throw keys.error;
    return isMoreLeft;
  } catch (error) {
    throw faultOf(error);
  }
};
