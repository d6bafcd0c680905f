// Rows of users, who may be members of several tenants: digests of addresses, passwords, memberships, links that reset a password.
import type { Database } from '../../../platform/db/database.ts';
import { signedColumns } from '../../../platform/db/signed-rows.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';

export type StoredUser = { id: string; password_hash: string };

/** `second_factor_since`: null without a device. */
export type FoundUser = StoredUser & { address_digest: Uint8Array; second_factor_since: Date | null };

/** `settings` of the tenant. */
export type StoredMembership = { tenant_id: string; name: string; member_id: string; settings: unknown };

/** More than one user belongs to. */
const MEMBERSHIPS_LISTED_MAX = 200;

const FIND_USER = `SELECT ${signedColumns('users', 'u')} FROM users u WHERE u.address_digest = $1`;

const LIST_MEMBERSHIPS = `
SELECT ms.tenant_id, t.name, ms.member_id, ${signedColumns('tenants', 't')}, ${signedColumns('members', 'm')}
FROM memberships ms
JOIN tenants t ON t.id = ms.tenant_id
JOIN members m ON m.tenant_id = ms.tenant_id AND m.id = ms.member_id AND m.user_id = ms.user_id
WHERE ms.user_id = $1 ORDER BY t.name, t.id LIMIT ${MEMBERSHIPS_LISTED_MAX}`;

const FIND_LOCKED = 'SELECT id, password_hash FROM users WHERE id = $1::uuid';

/** A session that begins at the same time waits for this: it is then deleted, or sees the new password. */
const LOCK_MEMBERS = `
SELECT m.tenant_id, m.id AS member_id
FROM memberships ms
JOIN tenants t ON t.id = ms.tenant_id
JOIN members m ON m.tenant_id = ms.tenant_id AND m.id = ms.member_id AND m.user_id = ms.user_id
WHERE ms.user_id = $1::uuid ORDER BY m.tenant_id FOR UPDATE OF m`;

export const findUserBeforeCaller = async (
  { statements, signedRows }: Pick<Database, 'statements' | 'signedRows'>,
  address_digest: Uint8Array,
): Promise<FoundUser | undefined> => {
  const [found] = await signedRows.find(['users'], () => statements.query('find-user', FIND_USER, [address_digest]));
  return found?.users;
};

/** The tenants that a user is a member of, by name. */
export const listMembershipsBeforeCaller = async (
  { statements, signedRows }: Pick<Database, 'statements' | 'signedRows'>,
  user_id: string,
): Promise<StoredMembership[]> => {
  const rows = await signedRows.find(['tenants', 'members'], () =>
    statements.query('list-memberships', LIST_MEMBERSHIPS, [user_id]),
  );
  return rows.map(({ tenants, joined: { tenant_id, name, member_id } }) => ({
    tenant_id,
    name,
    member_id,
    settings: tenants.settings,
  }));
};

/** @returns false where the address has a user already. */
export const insertUser = async (
  { prisma, signing }: PrismaTransaction,
  row: StoredUser & { address_digest: Uint8Array; created_at: Date },
): Promise<boolean> => {
  const data = { ...row, address_digest: Uint8Array.from(row.address_digest) };
  const isNew = (await prisma.users.createMany({ data, skipDuplicates: true })).count > 0;
  if (isNew) signing.addHead('users', row.id);
  return isNew;
};

/** @returns undefined too for a user that does not verify. */
export const lockUser = async ({ query, signing }: PrismaTransaction, id: string): Promise<StoredUser | undefined> =>
  (await signing.holds('users', id)) ? ((await query('find-user', FIND_LOCKED, [id])) as StoredUser[])[0] : undefined;

/** The memberships of a user in all tenants, locked. */
export const lockMembersOfUser = async (
  { query }: PrismaTransaction,
  user_id: string,
): Promise<Pick<StoredMembership, 'tenant_id' | 'member_id'>[]> =>
  query('lock-members-of-user', LOCK_MEMBERS, [user_id]);

/** Sets the hash of a user's password, and ends all of their sessions and links. */
export const replacePassword = async (
  { prisma, signing }: PrismaTransaction,
  user_id: string,
  password_hash: string,
): Promise<void> => {
  await signing.change('users', user_id, user_id);
  await prisma.users.update({ where: { id: user_id }, data: { password_hash } });
  await prisma.password_resets.deleteMany({ where: { user_id } });
  await prisma.sessions.deleteMany({ where: { user_id } });
};

// Rows of links that reset a password, found by the digest of their secret before a caller is known. One of a user, the newest.

const FIND = `
SELECT ${signedColumns('users', 'u')}, ${signedColumns('password_resets', 'r')}
FROM password_resets r JOIN users u ON u.id = r.user_id
WHERE r.digest = $1`;

/** The user of a link that has not expired. */
export const findResetBeforeCaller = async (
  { statements, signedRows }: Pick<Database, 'statements' | 'signedRows'>,
  digest: Uint8Array,
  now: Date,
): Promise<FoundUser | undefined> => {
  const [found] = await signedRows.find(['users', 'password_resets'], () =>
    statements.query('find-password-reset', FIND, [digest]),
  );
  return found && found.password_resets.expires_at > now ? found.users : undefined;
};

/** Ends the link that the user had. The transaction must hold the user. */
export const putReset = async (
  { prisma, signing }: PrismaTransaction,
  { digest, user_id, expires_at }: { digest: Uint8Array; user_id: string; expires_at: Date },
): Promise<void> => {
  if ((await prisma.password_resets.deleteMany({ where: { user_id } })).count > 0)
    await signing.revoke('users', user_id);
  await signing.add('password_resets', digest, user_id);
  await prisma.password_resets.create({ data: { digest: Uint8Array.from(digest), user_id, expires_at } });
};

/** The transaction must hold the user, so that of concurrent ones with one link one gets it. @returns whether the link still works. */
export const holdsReset = async (
  { prisma, signing }: PrismaTransaction,
  user_id: string,
  digest: Uint8Array,
  now: Date,
): Promise<boolean> => {
  const where = { user_id, digest: Uint8Array.from(digest), expires_at: { gt: now } };
  const row = await prisma.password_resets.findFirst({ where });
  return row !== null && (await signing.isIntact('password_resets', row, user_id));
};
