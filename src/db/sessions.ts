// Rows of sessions, and what signing in looks at before a caller is known. Knows digests of secrets and addresses, never
// either; a session counts only while its member and its tenant are there, whatever is left of its row.
import { writeLog } from './finish.ts';
import type { NewLog } from './hot.ts';
import { NOTIFY } from './notices.ts';
import { memberNotice, type Role } from './people.ts';
import type { Query, Statements } from './statements.ts';

/** A session with whom it leads to. */
export type StoredSession = {
  tenant_id: string;
  tenant_name: string;
  settings: unknown;
  member_id: string;
  user_id: string;
  role: Role;
  /** Of the member. */
  sealed: Buffer;
  seen_at: Date;
  expires_at: Date;
};

export type NewSession = {
  digest: Uint8Array;
  tenant_id: string;
  member_id: string;
  user_id: string;
  created_at: Date;
  expires_at: Date;
};

/**
 * What a session begins by, which must be so still when it does: a password, as it is kept, or a session in whose place it comes.
 * Whoever ends the user's sessions holds the member meanwhile, so that none begins behind their back.
 */
export type SessionGround = { password_hash: string } | { instead_of: Uint8Array };

export type StoredMembership = { tenant_id: string; name: string; member_id: string };

/** Of a user, more than anyone is a member of. */
const MEMBERSHIPS_LISTED_MAX = 200;

const FIND = `
SELECT s.tenant_id, t.name AS tenant_name, t.settings, s.member_id, s.user_id, m.role, m.sealed, s.seen_at, s.expires_at
FROM sessions s
JOIN members m ON m.tenant_id = s.tenant_id AND m.id = s.member_id AND m.user_id = s.user_id
JOIN tenants t ON t.id = s.tenant_id
WHERE s.digest = $1`;

/** A clock that is behind another process's takes nothing back. */
const SEEN = 'UPDATE sessions SET seen_at = $2 WHERE digest = $1 AND seen_at < $2';

/** The member's row is held, so that whoever removes the member sees the session or is seen by it. */
const LOCK_MEMBER = `
SELECT m.id FROM members m JOIN tenants t ON t.id = m.tenant_id
WHERE m.tenant_id = $1 AND m.id = $2 AND m.user_id = $3 FOR SHARE OF m`;

const HAS_PASSWORD = 'SELECT NULL AS expires_at FROM users WHERE id = $1 AND password_hash = $2';

const IS_THERE = 'SELECT expires_at FROM sessions WHERE user_id = $1 AND digest = $2';

const INSERT = `
INSERT INTO sessions (digest, tenant_id, member_id, user_id, created_at, seen_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $5, $6)`;

const DELETE_OLDEST = `
DELETE FROM sessions WHERE digest IN (
  SELECT digest FROM sessions WHERE tenant_id = $1 AND member_id = $2 ORDER BY created_at DESC, digest OFFSET $3
)`;

const DELETE = 'DELETE FROM sessions WHERE digest = $1 RETURNING tenant_id, member_id, user_id';

const FIND_USER = 'SELECT id, password_hash FROM users WHERE address_digest = $1';

const MEMBERSHIPS = `
SELECT ms.tenant_id, t.name, ms.member_id
FROM memberships ms
JOIN tenants t ON t.id = ms.tenant_id
JOIN members m ON m.tenant_id = ms.tenant_id AND m.id = ms.member_id
WHERE ms.user_id = $1 ORDER BY t.name, t.id LIMIT ${MEMBERSHIPS_LISTED_MAX}`;

/** Only where the transaction holds the member. */
export const putSession = async (on: Query, session: NewSession): Promise<void> => {
  const { digest, tenant_id, member_id, user_id, created_at, expires_at } = session;
  await on('insert-session', INSERT, [digest, tenant_id, member_id, user_id, created_at, expires_at]);
};

/** @returns when a session on this ground ends at the latest, where it is not the password's own; undefined where the ground is gone. */
const findGround = async (
  on: Query,
  user_id: string,
  ground: SessionGround,
): Promise<{ expires_at: Date | null } | undefined> => {
  const rows =
    'password_hash' in ground
      ? await on('user-has-password', HAS_PASSWORD, [user_id, ground.password_hash])
      : await on('session-is-there', IS_THERE, [user_id, ground.instead_of]);
  return (rows as { expires_at: Date | null }[])[0];
};

export const sessionStatements = ({ query, transaction }: Statements) => ({
  findSessionBeforeCaller: async (digest: Uint8Array): Promise<StoredSession | undefined> =>
    ((await query('find-session', FIND, [digest])) as StoredSession[])[0],

  /** Moves on when it was seen last. */
  markSessionSeen: async (digest: Uint8Array, at: Date): Promise<void> => {
    await query('session-seen', SEEN, [digest, at]);
  },

  /**
   * Adds a session, and removes the member's oldest beyond so many.
   * @returns false where the member is gone, or the ground: nothing is written then.
   */
  addSession: (session: NewSession, ground: SessionGround, most: number, log: NewLog): Promise<boolean> =>
    transaction(async (on) => {
      const { tenant_id, member_id, user_id } = session;
      if ((await on('lock-member-for-session', LOCK_MEMBER, [tenant_id, member_id, user_id])).length === 0)
        return false;
      const held = await findGround(on, user_id, ground);
      if (!held) return false;
      // Whoever shows no password gets no more time than they had.
      await putSession(on, { ...session, expires_at: held.expires_at ?? session.expires_at });
      await on('delete-oldest-sessions', DELETE_OLDEST, [tenant_id, member_id, most]);
      await writeLog(on, tenant_id, log);
      return true;
    }),

  /** Ends a session everywhere. @param logOf what is logged of whose it was. @returns whether it was there. */
  deleteSession: (
    digest: Uint8Array,
    logOf: (of: { member_id: string; user_id: string }) => NewLog,
  ): Promise<boolean> =>
    transaction(async (on: Query) => {
      const [gone] = (await on('delete-session', DELETE, [digest])) as {
        tenant_id: string;
        member_id: string;
        user_id: string;
      }[];
      if (!gone) return false;
      await writeLog(on, gone.tenant_id, logOf(gone));
      await on('notify', NOTIFY, [memberNotice(gone.member_id)]);
      return true;
    }),

  /** A user as signing in needs it. */
  findSignInBeforeCaller: async (
    address_digest: Uint8Array,
  ): Promise<{ id: string; password_hash: string } | undefined> =>
    ((await query('find-sign-in', FIND_USER, [address_digest])) as { id: string; password_hash: string }[])[0],

  /** The tenants that a user is a member of, by name. */
  listMembershipsBeforeCaller: async (user_id: string): Promise<StoredMembership[]> =>
    (await query('list-memberships', MEMBERSHIPS, [user_id])) as StoredMembership[],
});
