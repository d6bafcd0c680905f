// Rows of members and of their memberships. Names and addresses are sealed.
import type { Counted } from '../../../platform/base/pagination.ts';
import type { TenantDatabase } from '../../../platform/db/database.ts';
import { amongAllTenants } from '../../../platform/db/named-tenants.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';
import { lockTenant } from './people.ts';
import type { Role } from '../roles.ts';

export type StoredMember = {
  id: string;
  user_id: string;
  role: Role;
  address_digest: Uint8Array;
  sealed: Uint8Array;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

/** `user_ids`: only these users; undefined for all. */
export type MemberFilter = { user_ids: string[] | undefined };

/** Another tenant may remove the same user at the same time: the later transaction sees that it was the last membership. */
const LOCK_USER = `
SELECT u.id FROM members m JOIN users u ON u.id = m.user_id
WHERE m.tenant_id = $1::uuid AND m.id = $2::uuid FOR UPDATE OF u`;

const LOCK = 'SELECT id FROM members WHERE tenant_id = $1::uuid AND id = $2::uuid FOR UPDATE';

const keyOf = ({ tenant_id }: { tenant_id: string }, id: string) => ({ tenant_id_id: { tenant_id, id } });

const whereOf = ({ tenant_id }: TenantDatabase, { user_ids }: MemberFilter) => ({
  tenant_id,
  ...(user_ids && { user_id: { in: user_ids } }),
});

export const findMember = async (db: TenantDatabase, id: string): Promise<StoredMember | undefined> => {
  const row = await db.prisma((client) => client.members.findFirst({ where: { tenant_id: db.tenant_id, id } }));
  return (row as StoredMember | null) ?? undefined;
};

/** The id of the member who is the owner. */
export const findOwnerId = async ({ prisma, tenant_id }: TenantDatabase): Promise<string | undefined> => {
  const where = { tenant_id, role: 'OWNER' };
  return (await prisma((client) => client.members.findFirst({ where, select: { id: true } })))?.id;
};

export const countMembers = async (db: TenantDatabase, filter: MemberFilter): Promise<Counted> => ({
  total: await db.prisma((client) => client.members.count({ where: whereOf(db, filter) })),
  capped: false,
});

/** Newest first, then by id. */
export const listMembers = async (
  db: TenantDatabase,
  filter: MemberFilter,
  offset: number,
  limit: number,
): Promise<StoredMember[]> => {
  const order = { orderBy: [{ created_at: 'desc' as const }, { id: 'asc' as const }], skip: offset, take: limit };
  const rows = await db.prisma((client) => client.members.findMany({ where: whereOf(db, filter), ...order }));
  return rows as StoredMember[];
};

export const lockMember = async (tx: PrismaTransaction, id: string): Promise<StoredMember | undefined> => {
  if (!(await lockTenant(tx))) return undefined;
  await tx.query('lock-user-of-member', LOCK_USER, [tx.tenant_id, id]);
  await tx.query('lock-member', LOCK, [tx.tenant_id, id]);
  const row = await tx.prisma.members.findUnique({ where: keyOf(tx, id) });
  return row && (await tx.signing.isIntact('members', row)) ? (row as StoredMember) : undefined;
};

export const isMember = async (
  { prisma, tenant_id }: PrismaTransaction,
  by: { user_id: string } | { address_digest: Uint8Array },
): Promise<boolean> => {
  const sought = 'user_id' in by ? by : { address_digest: Uint8Array.from(by.address_digest) };
  return (await prisma.members.count({ where: { tenant_id, ...sought } })) > 0;
};

/** @returns undefined too for a member that does not verify. */
export const findMemberOfUser = async (
  { prisma, signing, tenant_id }: PrismaTransaction,
  user_id: string,
): Promise<Pick<StoredMember, 'id' | 'role'> | undefined> => {
  const row = await prisma.members.findUnique({ where: { tenant_id_user_id: { tenant_id, user_id } } });
  return row && (await signing.isIntact('members', row)) ? (row as StoredMember) : undefined;
};

export const insertMember = async (
  { prisma, signing, tenant_id }: PrismaTransaction,
  row: Pick<StoredMember, 'id' | 'user_id' | 'role' | 'address_digest' | 'sealed' | 'created_at' | 'created_by'>,
): Promise<void> => {
  const { id: member_id, user_id } = row;
  await signing.add('members', member_id);
  const bytes = { address_digest: Uint8Array.from(row.address_digest), sealed: Uint8Array.from(row.sealed) };
  await prisma.members.create({ data: { ...row, ...bytes, tenant_id } });
  await prisma.memberships.create({ data: { user_id, tenant_id, member_id } });
};

export const updateMember = async (
  tx: PrismaTransaction,
  id: string,
  data: { role: Role; modified_at: Date; modified_by: string },
): Promise<void> => {
  await tx.signing.change('members', id);
  await tx.prisma.members.update({ where: keyOf(tx, id), data });
};

export const setTenantOwner = async ({ prisma, tenant_id }: PrismaTransaction, owner_id: string): Promise<void> => {
  await prisma.tenants.update({ where: { id: tenant_id }, data: { owner_id } });
};

/** Removes a member with their sessions in the tenant, and the user with their last membership. */
export const removeMember = async (tx: PrismaTransaction, member_id: string): Promise<void> => {
  const { prisma, signing, tenant_id } = tx;
  await signing.revoke('tenants');
  const member = await prisma.members.delete({ where: keyOf({ tenant_id }, member_id), select: { user_id: true } });
  const { user_id } = member;
  // A user that does not verify has no session that works.
  if (await signing.holds('users', user_id)) await signing.revoke('users', user_id);
  await prisma.sessions.deleteMany({ where: { tenant_id, member_id } });
  await prisma.sso_identities.deleteMany({ where: { tenant_id, member_id } });
  await prisma.memberships.deleteMany({ where: { tenant_id, user_id } });
  const left = await amongAllTenants(tx, () => prisma.memberships.count({ where: { user_id } }));
  if (left === 0) await prisma.users.deleteMany({ where: { id: user_id } });
};
