// Rows of users, who may be members of several tenants: address digests, password hashes and memberships.
import type { Database } from '../../../platform/db/database.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';

export type StoredUser = { id: string; password_hash: string };

export type StoredMembership = { tenant_id: string; name: string; member_id: string };

/** More than one user belongs to. */
const MEMBERSHIPS_LISTED_MAX = 200;

const LIST_MEMBERSHIPS = `
SELECT ms.tenant_id, t.name, ms.member_id
FROM memberships ms
JOIN tenants t ON t.id = ms.tenant_id
JOIN members m ON m.tenant_id = ms.tenant_id AND m.id = ms.member_id
WHERE ms.user_id = $1 ORDER BY t.name, t.id LIMIT ${MEMBERSHIPS_LISTED_MAX}`;

const LOCK = 'SELECT id, password_hash FROM users WHERE id = $1::uuid FOR UPDATE';

/** A session that begins at the same time waits for this: it is then deleted, or sees the new password. */
const LOCK_MEMBERS = `
SELECT m.tenant_id, m.id AS member_id
FROM memberships ms
JOIN tenants t ON t.id = ms.tenant_id
JOIN members m ON m.tenant_id = ms.tenant_id AND m.id = ms.member_id
WHERE ms.user_id = $1::uuid ORDER BY m.tenant_id FOR UPDATE OF m`;

export const findUserBeforeCaller = async (
  { prisma }: Pick<Database, 'prisma'>,
  address_digest: Uint8Array,
): Promise<StoredUser | undefined> => {
  const where = { address_digest: Uint8Array.from(address_digest) };
  const select = { id: true, password_hash: true };
  return (await prisma((client) => client.users.findFirst({ where, select }))) ?? undefined;
};

/** The tenants that a user is a member of, by name. */
export const listMembershipsBeforeCaller = async (
  { statements }: Pick<Database, 'statements'>,
  user_id: string,
): Promise<StoredMembership[]> => statements.query('list-memberships', LIST_MEMBERSHIPS, [user_id]);

/** @returns false where the address has a user already. */
export const insertUser = async (
  { prisma }: PrismaTransaction,
  row: StoredUser & { address_digest: Uint8Array; created_at: Date },
): Promise<boolean> => {
  const data = { ...row, address_digest: Uint8Array.from(row.address_digest) };
  return (await prisma.users.createMany({ data, skipDuplicates: true })).count > 0;
};

export const lockUser = async ({ query }: PrismaTransaction, id: string): Promise<StoredUser | undefined> =>
  ((await query('lock-user', LOCK, [id])) as StoredUser[])[0];

/** The memberships of a user in all tenants, locked. */
export const lockMembersOfUser = async (
  { query }: PrismaTransaction,
  user_id: string,
): Promise<Omit<StoredMembership, 'name'>[]> => query('lock-members-of-user', LOCK_MEMBERS, [user_id]);

/** Sets the hash of a user's password, and ends all of their sessions. */
export const replacePassword = async (
  { prisma }: PrismaTransaction,
  user_id: string,
  password_hash: string,
): Promise<void> => {
  await prisma.users.update({ where: { id: user_id }, data: { password_hash } });
  await prisma.sessions.deleteMany({ where: { user_id } });
};
