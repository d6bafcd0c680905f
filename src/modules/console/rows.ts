// Reads what pages show beyond the API's lists: what the home page says of a vault, and the sessions of a member.
import type { TenantQuery } from '../../platform/db/database.ts';
import { ALL_APPLICATIONS } from '../access/rows/usage.ts';

// What the page of a member shows beyond the API's list of members: the user, and the sessions.

/** More than a member may have. */
const SESSIONS_MAX = 100;

export type MemberSession = {
  created_at: Date;
  seen_at: Date;
  expires_at: Date;
  second_factor_at: Date | null;
  sso: boolean;
};

/** The id of a member's user, by which the API finds the member. */
export const findUserOfMember = async ({ query, tenant_id }: TenantQuery, id: string): Promise<string | undefined> => {
  const text = 'SELECT user_id FROM members WHERE tenant_id = $1 AND id = $2::uuid';
  return ((await query('find-user-of-member', text, [tenant_id, id])) as { user_id: string }[])[0]?.user_id;
};

/** Sessions that have not ended, the last used ones first. */
export const listSessionsOfMember = async (
  { query, tenant_id }: TenantQuery,
  member_id: string,
  { now, idleMs }: { now: Date; idleMs: number },
): Promise<MemberSession[]> =>
  (await query(
    'list-sessions-to-show',
    `SELECT s.created_at, s.seen_at, s.expires_at, s.second_factor_at, x.digest IS NOT NULL AS sso
FROM sessions s LEFT JOIN sso_sessions x ON x.digest = s.digest
WHERE s.tenant_id = $1 AND s.member_id = $2::uuid AND s.expires_at > $3 AND s.seen_at > $4
ORDER BY s.seen_at DESC LIMIT ${SESSIONS_MAX}`,
    [tenant_id, member_id, now, new Date(now.getTime() - idleMs)],
  )) as MemberSession[];

/** Keys that need attention. */
const KEYS_MAX = 10;

/** Applications whose keys are looked at, the newest ones: a tenant may have many thousands, and each opening of the page reads them. */
const APPLICATIONS_MAX = 200;

/** Waiting invitations are counted up to this number. */
const INVITATIONS_MAX = 100;

export type KeyToWatch = {
  name: string | null;
  expires_at: Date | null;
  application_id: string;
  application: string;
  permissions: number;
};

/** Keys that expire before a time, the first ones first; then those that never do, of applications with the most permissions. */
export const findKeysToWatch = async (
  { query, tenant_id }: TenantQuery,
  { now, before }: { now: Date; before: Date },
): Promise<KeyToWatch[]> =>
  (await query(
    'find-keys-to-watch',
    `SELECT k.name, k.expires_at, a.id AS application_id, a.name AS application, cardinality(a.permissions) AS permissions
FROM (SELECT id, name, type, permissions FROM applications WHERE tenant_id = $1 ORDER BY created_at DESC, id
    LIMIT ${APPLICATIONS_MAX}) AS a
  CROSS JOIN LATERAL (SELECT public_id, name, expires_at FROM api_keys WHERE tenant_id = $1 AND application_id = a.id) AS k
WHERE a.type <> 'public' AND (k.expires_at IS NULL OR (k.expires_at > $2 AND k.expires_at <= $3))
ORDER BY k.expires_at, permissions DESC, k.public_id LIMIT ${KEYS_MAX}`,
    [tenant_id, now, before],
  )) as KeyToWatch[];

export const countWaitingInvitations = async ({ query, tenant_id }: TenantQuery, now: Date): Promise<number> => {
  const [{ count }] = (await query(
    'count-waiting-invitations',
    `SELECT count(*)::int AS count FROM
  (SELECT 1 FROM invitations WHERE tenant_id = $1 AND expires_at > $2 LIMIT ${INVITATIONS_MAX}) AS waiting`,
    [tenant_id, now],
  )) as [{ count: number }];
  return count;
};

/** Forwarded requests with an unknown outcome and without a replay are counted up to this number. */
const UNKNOWN_MAX = 100;

/** Counts these requests from an id on, and finds the oldest of them. */
export const countUnknownForwards = async (
  { query, tenant_id }: TenantQuery,
  from_id: string,
): Promise<{ count: number; oldest_id: string | null }> =>
  (
    (await query(
      'count-unknown-forwards',
      `SELECT count(*)::int AS count, min(id::text) AS oldest_id FROM
  (SELECT id FROM forwards AS f WHERE tenant_id = $1 AND state = 'unknown' AND id >= $2::uuid
    AND NOT EXISTS (SELECT FROM forwards WHERE tenant_id = $1 AND id >= $2::uuid AND replay_of = f.id)
    ORDER BY id LIMIT ${UNKNOWN_MAX}) AS open`,
      [tenant_id, from_id],
    )) as [{ count: number; oldest_id: string | null }]
  )[0];

/** Tokens whose values were revealed in each of these hours, by its beginning in ms; hours without any have none. */
export const countRevealed = async (
  { query, tenant_id }: TenantQuery,
  hours: readonly Date[],
): Promise<ReadonlyMap<number, number>> => {
  const rows = (await query(
    'count-revealed',
    `SELECT hour, tokens::float8 AS tokens FROM usage_hours
WHERE tenant_id = $1 AND application_id = $2::uuid AND hour = ANY ($3::timestamptz[]) AND kind = 'revealed'`,
    [tenant_id, ALL_APPLICATIONS, hours],
  )) as { hour: Date; tokens: number }[];
  return new Map(rows.map(({ hour, tokens }) => [hour.getTime(), tokens]));
};

type StepsDone = { token: boolean; key: boolean; run: boolean; people: boolean };

/** Whether there is a token, an application beside the first, a run, and anyone else but the owner. */
export const findStepsDone = async ({ query, tenant_id }: TenantQuery): Promise<StepsDone> => {
  const [done] = (await query(
    'find-steps-done',
    `SELECT EXISTS (SELECT FROM tokens WHERE tenant_id = $1) AS token,
  (SELECT count(*) > 1 FROM (SELECT 1 FROM applications WHERE tenant_id = $1 LIMIT 2) AS found) AS key,
  EXISTS (SELECT FROM runs WHERE tenant_id = $1) AS run,
  (SELECT count(*) > 1 FROM (SELECT 1 FROM members WHERE tenant_id = $1 LIMIT 2) AS found)
    OR EXISTS (SELECT FROM invitations WHERE tenant_id = $1) AS people`,
    [tenant_id],
  )) as [StepsDone];
  return done;
};
