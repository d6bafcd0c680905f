// Changing a password: its new hash, the end of all sessions of the user and the rows of the log, in one transaction. Knows
// hashes and digests only.
import { writeLog } from './finish.ts';
import type { NewLog } from './hot.ts';
import { NOTIFY } from './notices.ts';
import { memberNotice } from './people.ts';
import { type NewSession, putSession } from './sessions.ts';
import type { Statements } from './statements.ts';

export type PasswordChange = {
  user_id: string;
  /** The hash that was looked at; undefined where nobody asks what it was. */
  before: string | undefined;
  password_hash: string;
  /** Goes on in place of all that end; undefined for none. */
  session: NewSession | undefined;
};

export type PasswordChangeOutcome =
  | { kind: 'changed'; member_ids: string[] }
  /** It is another one by now. */
  | { kind: 'other_password' }
  /** The user is, or whoever the session is of. */
  | { kind: 'gone' };

const LOCK_USER = 'SELECT password_hash FROM users WHERE id = $1 FOR UPDATE';

/** Held, so that a session which is about to begin is either ended here or sees what its password became. */
const LOCK_MEMBERS = `
SELECT m.tenant_id, m.id
FROM memberships ms
JOIN tenants t ON t.id = ms.tenant_id
JOIN members m ON m.tenant_id = ms.tenant_id AND m.id = ms.member_id
WHERE ms.user_id = $1 ORDER BY m.tenant_id FOR UPDATE OF m`;

const UPDATE = 'UPDATE users SET password_hash = $2 WHERE id = $1';

const DELETE_SESSIONS = 'DELETE FROM sessions WHERE user_id = $1';

export const passwordStatements = ({ transaction }: Statements) => ({
  /** @param logOf what the log of each tenant says of the user as its member. */
  changePassword: (change: PasswordChange, logOf: (member_id: string) => NewLog): Promise<PasswordChangeOutcome> =>
    transaction(async (on) => {
      const { user_id, before, password_hash, session } = change;
      const [user] = (await on('lock-user-for-password', LOCK_USER, [user_id])) as { password_hash: string }[];
      if (!user) return { kind: 'gone' };
      const members = (await on('lock-members-of-user', LOCK_MEMBERS, [user_id])) as {
        tenant_id: string;
        id: string;
      }[];
      if (session && !members.some(({ id }) => id === session.member_id)) return { kind: 'gone' };
      if (before !== undefined && before !== user.password_hash) return { kind: 'other_password' };
      await on('update-password', UPDATE, [user_id, password_hash]);
      await on('delete-sessions-of-user', DELETE_SESSIONS, [user_id]);
      if (session) await putSession(on, session);
      for (const { tenant_id, id } of members) {
        await writeLog(on, tenant_id, logOf(id));
        await on('notify', NOTIFY, [memberNotice(id)]);
      }
      return { kind: 'changed', member_ids: members.map(({ id }) => id) };
    }),
});
