// Rows of sessions, found by the digest of their secret before a caller is known.
import type { Database } from '../../../platform/db/database.ts';
import { signedColumns } from '../../../platform/db/signed-rows.ts';
import { amongAllTenants } from '../../../platform/db/named-tenants.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';
import type { Role } from '../roles.ts';

/** A session with its member and tenant. */
export type StoredSession = {
  tenant_id: string;
  tenant_name: string;
  settings: unknown;
  member_id: string;
  user_id: string;
  role: Role;
  /** Sealed data of the member. */
  sealed: Uint8Array;
  seen_at: Date;
  expires_at: Date;
  second_factor_at: Date | null;
  /** Since when the user has a device; null without one. */
  second_factor_since: Date | null;
};

export type NewSession = {
  digest: Uint8Array;
  tenant_id: string;
  member_id: string;
  user_id: string;
  created_at: Date;
  expires_at: Date;
  second_factor_at: Date | null;
};

/** What a session begins with: a password, by its hash, or an earlier session, by its digest. */
export type SessionBasis = { password_hash: string } | { instead_of: Uint8Array };

/** Sessions of one member, on all devices; one more ends the oldest. */
const SESSIONS_MAX = 20;
/** Sessions of one member with a device, begun by the password and without the second factor yet. */
const PENDING_MAX = 5;

/** Newest first. */
const LIST_OF_MEMBER = `
SELECT s.digest, CASE WHEN s.second_factor_at IS NOT NULL THEN 'factor'
  WHEN EXISTS (SELECT FROM sso_sessions x WHERE x.digest = s.digest) THEN 'sso'
  WHEN u.second_factor_since IS NULL THEN 'password' ELSE 'pending' END AS kind
FROM sessions s JOIN users u ON u.id = s.user_id
WHERE s.tenant_id = $1::uuid AND s.member_id = $2::uuid ORDER BY s.created_at DESC, s.digest`;

/** Hot: each page. A session counts only while its member and its tenant exist. */
const FIND = `
SELECT t.name AS tenant_name, m.sealed, s.seen_at, ${signedColumns('tenants', 't')}, ${signedColumns('members', 'm')},
  ${signedColumns('users', 'u')}, ${signedColumns('sessions', 's')}
FROM sessions s
JOIN members m ON m.tenant_id = s.tenant_id AND m.id = s.member_id AND m.user_id = s.user_id
JOIN tenants t ON t.id = s.tenant_id
JOIN users u ON u.id = s.user_id
WHERE s.digest = $1`;

/** Shared: a removal of the member and a change of their password wait for sessions that begin, or the other way round. */
const LOCK_MEMBER = `
SELECT m.id FROM members m JOIN tenants t ON t.id = m.tenant_id
WHERE m.tenant_id = $1::uuid AND m.id = $2::uuid AND m.user_id = $3::uuid FOR SHARE OF m`;

export const findSessionBeforeCaller = async (
  { statements, signedRows }: Pick<Database, 'statements' | 'signedRows'>,
  digest: Uint8Array,
): Promise<StoredSession | undefined> => {
  const [found] = await signedRows.find(ofSession, () => statements.query('find-session-of-member', FIND, [digest]));
  if (!found) return undefined;
  const { tenants, members, users, sessions, joined } = found;
  const { tenant_name, sealed, seen_at } = joined;
  const { tenant_id, member_id, user_id, expires_at, second_factor_at } = sessions;
  const { second_factor_since } = users;
  const ofMember = { role: members.role, settings: tenants.settings, second_factor_since };
  return { tenant_name, sealed, seen_at, ...ofMember, tenant_id, member_id, user_id, expires_at, second_factor_at };
};

const ofSession = ['tenants', 'members', 'users', 'sessions'] as const;

/** Never moves backwards: the clock of another process may be ahead. */
export const markSessionSeen = async (
  { prisma }: Pick<Database, 'prisma'>,
  digest: Uint8Array,
  seen_at: Date,
): Promise<void> => {
  const where = { digest: Uint8Array.from(digest), seen_at: { lt: seen_at } };
  await prisma((client) => client.sessions.updateMany({ where, data: { seen_at } }));
};

/** @returns whether the member exists. */
export const lockMemberForSession = async (
  { query, signing, tenant_id }: PrismaTransaction,
  { member_id, user_id }: NewSession,
): Promise<boolean> =>
  (await signing.holds('users', user_id)) &&
  (await query('lock-member-for-session', LOCK_MEMBER, [tenant_id, member_id, user_id])).length > 0;

type Carried = Pick<NewSession, 'expires_at' | 'second_factor_at'>;

/** @returns what an earlier session passes on: its end and its second factor. Undefined where the basis is gone. */
export const carriedOver = async (
  tx: PrismaTransaction,
  { user_id, expires_at, second_factor_at }: NewSession,
  basis: SessionBasis,
): Promise<Carried | undefined> => {
  const { prisma } = tx;
  if ('password_hash' in basis) {
    const where = { id: user_id, password_hash: basis.password_hash };
    return (await prisma.users.count({ where })) > 0 ? { expires_at, second_factor_at } : undefined;
  }
  const where = { user_id, digest: Uint8Array.from(basis.instead_of) };
  // It may be one in another tenant.
  const earlier = await amongAllTenants(tx, () => prisma.sessions.findFirst({ where }));
  return earlier && (await tx.signing.isIntact('sessions', earlier, user_id)) ? earlier : undefined;
};

/** @returns whether the user has the session. */
export const markSecondFactor = async (
  { prisma, signing }: PrismaTransaction,
  user_id: string,
  digest: Uint8Array,
  second_factor_at: Date,
): Promise<boolean> => {
  await signing.change('sessions', digest, user_id);
  const where = { user_id, digest: Uint8Array.from(digest) };
  return (await prisma.sessions.updateMany({ where, data: { second_factor_at } })).count > 0;
};

/** The transaction must hold the member. */
export const insertSession = async ({ prisma, signing }: PrismaTransaction, row: NewSession): Promise<void> => {
  await signing.add('sessions', row.digest, row.user_id);
  await prisma.sessions.create({ data: { ...row, digest: Uint8Array.from(row.digest), seen_at: row.created_at } });
};

/**
 * Ends the oldest sessions of a member in a tenant beyond so many. What began by the password, by a provider, and has the second factor
 * is counted apart: an attacker with the password alone, or with the provider alone, must not end the sessions of its owner.
 */
export const deleteOldestSessions = async (
  { prisma, query, signing }: PrismaTransaction,
  { tenant_id, member_id, user_id }: { tenant_id: string; member_id: string; user_id: string },
): Promise<void> => {
  const listed = await query('list-sessions-of-member', LIST_OF_MEMBER, [tenant_id, member_id]);
  const counts = new Map<string, number>();
  const oldest = listed.filter(({ kind }) => {
    const count = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, count);
    return count > (kind === 'pending' ? PENDING_MAX : SESSIONS_MAX);
  });
  if (oldest.length === 0) return;
  await signing.revoke('users', user_id);
  await prisma.sessions.deleteMany({ where: { digest: { in: oldest.map(({ digest }) => Uint8Array.from(digest)) } } });
};

/** The member of a session, of any tenant, whether or not they are still there. */
export const findSessionMemberBeforeCaller = (
  { prisma }: Pick<Database, 'prisma'>,
  digest: Uint8Array,
): Promise<{ tenant_id: string; member_id: string; user_id: string } | null> =>
  prisma((client) =>
    client.sessions.findFirst({
      where: { digest: Uint8Array.from(digest) },
      select: { tenant_id: true, member_id: true, user_id: true },
    }),
  );

/** @returns whether it existed. */
export const deleteSession = async (
  { prisma, signing }: PrismaTransaction,
  { user_id, digest }: { user_id: string; digest: Uint8Array },
): Promise<boolean> => {
  if (await signing.holds('users', user_id)) await signing.revoke('users', user_id);
  return (await prisma.sessions.deleteMany({ where: { user_id, digest: Uint8Array.from(digest) } })).count > 0;
};

/** Ends all sessions of a user, and their link that resets the password. */
export const deleteSessionsOfUser = async ({ prisma, signing }: PrismaTransaction, user_id: string): Promise<void> => {
  await signing.revoke('users', user_id);
  await prisma.password_resets.deleteMany({ where: { user_id } });
  await prisma.sessions.deleteMany({ where: { user_id } });
};
