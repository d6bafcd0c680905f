// Rows of members. One that is removed takes along all it could come back by: sessions, invitations, and the user where that
// was the last membership. Knows sealed names and digests only.
import { writeLog } from './finish.ts';
import type { NewLog } from './hot.ts';
import { NOTIFY } from './notices.ts';
import { endLinks, lockTenant, memberNotice, type Role } from './people.ts';
import type { Statements } from './statements.ts';

export type StoredMember = {
  id: string;
  user_id: string;
  role: Role;
  sealed: Buffer;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

/** $2 are the users; null for all. */
const OF_USERS = 'tenant_id = $1 AND ($2::uuid[] IS NULL OR user_id = ANY($2::uuid[]))';

const COUNT = `SELECT count(*) AS count FROM members WHERE ${OF_USERS}`;

const LIST = `SELECT id, user_id, role, sealed, created_at, created_by, modified_at, modified_by FROM members
WHERE ${OF_USERS} ORDER BY created_at DESC, id LIMIT $3 OFFSET $4`;

const LOCK_USER = `
SELECT u.id FROM members m JOIN users u ON u.id = m.user_id WHERE m.tenant_id = $1 AND m.id = $2 FOR UPDATE OF u`;

const LOCK = 'SELECT user_id, role, address_digest FROM members WHERE tenant_id = $1 AND id = $2 FOR UPDATE';

/** Those to the address, and those that the user made: a link in a mailbox that is theirs as well. */
const DELETE_INVITATIONS = `
DELETE FROM invitations WHERE tenant_id = $1 AND (address_digest = $2 OR created_by = $3) RETURNING id`;

const DELETE_SESSIONS = 'DELETE FROM sessions WHERE tenant_id = $1 AND member_id = $2';

const DELETE = 'DELETE FROM members WHERE tenant_id = $1 AND id = $2';

const DELETE_MEMBERSHIP = 'DELETE FROM memberships WHERE user_id = $1 AND tenant_id = $2';

const DELETE_USER = 'DELETE FROM users WHERE id = $1 AND NOT EXISTS (SELECT FROM memberships WHERE user_id = $1)';

export const memberStatements = ({ query, transaction }: Statements, tenant_id: string) => ({
  countMembers: async (user_ids: string[] | undefined): Promise<number> =>
    Number(((await query('count-members', COUNT, [tenant_id, user_ids ?? null])) as [{ count: string }])[0].count),

  /** Newest first, then by id. */
  listMembers: async (user_ids: string[] | undefined, offset: number, limit: number): Promise<StoredMember[]> =>
    (await query('list-members', LIST, [tenant_id, user_ids ?? null, limit, offset])) as StoredMember[],

  /** Removes a member who is not the owner. @param logsOf what the log says, with the invitations that went along. */
  deleteMember: (
    id: string,
    logsOf: (invitation_ids: string[]) => NewLog[],
  ): Promise<'deleted' | 'missing' | 'owner'> =>
    transaction(async (on) => {
      if (!(await lockTenant(on, tenant_id))) return 'missing';
      // Another tenant may remove the same user at this moment: the later one sees that it was the last.
      await on('lock-user-of-member', LOCK_USER, [tenant_id, id]);
      const [row] = (await on('lock-member', LOCK, [tenant_id, id])) as {
        user_id: string;
        role: Role;
        address_digest: Buffer;
      }[];
      if (!row) return 'missing';
      if (row.role === 'OWNER') return 'owner';
      const gone = (await on('delete-invitations-of-member', DELETE_INVITATIONS, [
        tenant_id,
        row.address_digest,
        row.user_id,
      ])) as { id: string }[];
      const invitation_ids = gone.map((invitation) => invitation.id);
      await endLinks(on, tenant_id, invitation_ids);
      await on('delete-member', DELETE, [tenant_id, id]);
      await on('delete-sessions-of-member', DELETE_SESSIONS, [tenant_id, id]);
      await on('delete-membership', DELETE_MEMBERSHIP, [row.user_id, tenant_id]);
      await on('delete-user', DELETE_USER, [row.user_id]);
      for (const log of logsOf(invitation_ids)) await writeLog(on, tenant_id, log);
      await on('notify', NOTIFY, [memberNotice(id)]);
      return 'deleted';
    }),
});
