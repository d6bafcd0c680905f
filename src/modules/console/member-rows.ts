// What the page of a member shows beyond the API's list of members: the user, and the sessions.
import type { TenantQuery } from '../../platform/db/database.ts';

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
