// Rows of invitations, and of the secrets that their links end in. Addresses are sealed, secrets are digests.
import type { Database, TenantDatabase } from '../../../platform/db/database.ts';
import { signedColumns } from '../../../platform/db/signed-rows.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';
import type { Counted } from '../../../platform/base/pagination.ts';
import { endLinks, lockTenant } from './people.ts';
import type { Role } from '../roles.ts';

export type StoredInvitation = {
  id: string;
  role: Role;
  sealed: Uint8Array;
  expires_at: Date;
  /** Whether the newest link still exists. */
  has_link: boolean;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

export type NewInvitation = {
  id: string;
  role: Role;
  address_digest: Uint8Array;
  sealed: Uint8Array;
  expires_at: Date;
  created_at: Date;
  created_by: string | null;
};

export type InvitationFilter = { status: 'PENDING' | 'EXPIRED' | undefined; now: Date };

/** The invitation of a link, with the user of its address where there is one. */
export type LinkedInvitation = {
  tenant_id: string;
  tenant_name: string;
  id: string;
  role: Role;
  address_digest: Uint8Array;
  sealed: Uint8Array;
  expires_at: Date;
  user_id: string | null;
  password_hash: string | null;
};

const FROM = `FROM invitations i
LEFT JOIN invitation_secrets s ON s.tenant_id = i.tenant_id AND s.invitation_id = i.id`;

const SELECT = `SELECT i.id, i.role, i.sealed, i.expires_at, s.digest IS NOT NULL AS has_link, i.created_at, i.created_by,
  i.modified_at, i.modified_by ${FROM}`;

const FIND = `${SELECT} WHERE i.tenant_id = $1::uuid AND i.id = $2::uuid`;

/** $2 is the time, $3 the status. */
const OF_STATUS = `i.tenant_id = $1 AND ($3::text IS NULL
  OR (i.expires_at > $2 AND s.digest IS NOT NULL) = ($3::text = 'PENDING'))`;

const COUNT = `SELECT count(*)::int AS total ${FROM} WHERE ${OF_STATUS}`;

const LIST = `${SELECT} WHERE ${OF_STATUS} ORDER BY i.created_at DESC, i.id LIMIT $4 OFFSET $5`;

const FIND_BY_LINK = `
SELECT t.name AS tenant_name, i.sealed, ${signedColumns('tenants', 't')}, ${signedColumns('invitations', 'i')},
  ${signedColumns('invitation_secrets', 's')}, ${signedColumns('users', 'u')}
FROM invitation_secrets s
JOIN invitations i ON i.tenant_id = s.tenant_id AND i.id = s.invitation_id
JOIN tenants t ON t.id = i.tenant_id
LEFT JOIN users u ON u.address_digest = i.address_digest
WHERE s.digest = $1`;

const LOCK_LINK = `SELECT i.id FROM invitations i
JOIN invitation_secrets s ON s.tenant_id = i.tenant_id AND s.invitation_id = i.id
WHERE i.tenant_id = $1::uuid AND i.id = $2::uuid AND s.digest = $3::bytea AND i.expires_at > $4::timestamptz FOR UPDATE`;

const keyOf = ({ tenant_id }: PrismaTransaction, id: string) => ({ tenant_id_id: { tenant_id, id } });

export const findInvitation = async (db: TenantDatabase, id: string): Promise<StoredInvitation | undefined> =>
  ((await db.query('find-invitation', FIND, [db.tenant_id, id])) as StoredInvitation[])[0];

export const countInvitations = async (db: TenantDatabase, { status, now }: InvitationFilter): Promise<Counted> => {
  const [{ total }] = await db.query('count-invitations', COUNT, [db.tenant_id, now, status ?? null]);
  return { total, capped: false };
};

/** Newest first, then by id. */
export const listInvitations = async (
  db: TenantDatabase,
  { status, now }: InvitationFilter,
  offset: number,
  limit: number,
): Promise<StoredInvitation[]> =>
  db.query('list-invitations', LIST, [db.tenant_id, now, status ?? null, limit, offset]);

export const lockInvitation = async (tx: PrismaTransaction, id: string): Promise<StoredInvitation | undefined> => {
  if (!(await lockTenant(tx))) return undefined;
  const rows = await tx.query('lock-invitation', `${FIND} FOR UPDATE OF i`, [tx.tenant_id, id]);
  return (rows as StoredInvitation[])[0];
};

/** @param digest of the secret of its link. */
export const insertInvitation = async (
  tx: PrismaTransaction,
  row: NewInvitation,
  digest: Uint8Array,
): Promise<void> => {
  const bytes = { address_digest: Uint8Array.from(row.address_digest), sealed: Uint8Array.from(row.sealed) };
  await tx.signing.add('invitations', row.id);
  await tx.prisma.invitations.create({ data: { ...row, ...bytes, tenant_id: tx.tenant_id } });
  await insertLink(tx, row.id, digest);
};

const insertLink = async (
  { prisma, signing, tenant_id }: PrismaTransaction,
  invitation_id: string,
  digest: Uint8Array,
): Promise<void> => {
  await signing.add('invitation_secrets', digest);
  await prisma.invitation_secrets.create({ data: { digest: Uint8Array.from(digest), tenant_id, invitation_id } });
};

/** Gives an invitation another link, and ends the ones it had. */
export const replaceLink = async (
  tx: PrismaTransaction,
  id: string,
  row: Pick<StoredInvitation, 'expires_at' | 'modified_at' | 'modified_by'>,
  digest: Uint8Array,
): Promise<void> => {
  await tx.signing.change('invitations', id);
  await endLinks(tx, [id]);
  await tx.prisma.invitations.update({ where: keyOf(tx, id), data: row });
  await insertLink(tx, id, digest);
};

/** With its links and the mail that was not sent. */
export const removeInvitation = async (tx: PrismaTransaction, id: string): Promise<void> => {
  await tx.prisma.invitations.deleteMany({ where: { tenant_id: tx.tenant_id, id } });
  await endLinks(tx, [id]);
};

/**
 * Removes all invitations to an address and, with `user_id`, those that the user created.
 * @param of.hasOwnersKept not those for an owner. @returns those that verify.
 */
export const removeInvitationsOf = async (
  tx: PrismaTransaction,
  { address_digest, user_id, hasOwnersKept }: { address_digest: Uint8Array; user_id?: string; hasOwnersKept?: true },
): Promise<{ id: string; role: string; expires_at: Date }[]> => {
  const { prisma, tenant_id } = tx;
  const role = hasOwnersKept && { role: { not: 'OWNER' } };
  const toAddress = { tenant_id, address_digest: Uint8Array.from(address_digest), ...role };
  const where = user_id === undefined ? toAddress : { OR: [toAddress, { tenant_id, created_by: user_id }] };
  const rows = await prisma.invitations.findMany({ where });
  const ids = rows.map(({ id }) => id);
  await prisma.invitations.deleteMany({ where: { tenant_id, id: { in: ids } } });
  await endLinks(tx, ids);
  const intact = await Promise.all(rows.map((row) => tx.signing.isIntact('invitations', row)));
  return rows.filter((_, at) => intact[at]);
};

const ofLink = ['tenants', 'invitations', 'invitation_secrets', 'users'] as const;

/** The invitation of a link, of any tenant. */
export const findInvitationBeforeCaller = async (
  { statements, signedRows }: Pick<Database, 'statements' | 'signedRows'>,
  digest: Uint8Array,
): Promise<LinkedInvitation | undefined> => {
  const [found] = await signedRows.find(ofLink, () =>
    statements.query('find-invitation-by-digest', FIND_BY_LINK, [digest]),
  );
  if (!found) return undefined;
  const { invitations, users, joined } = found;
  const { tenant_name, sealed } = joined;
  return {
    ...invitations,
    tenant_name,
    sealed,
    user_id: users?.id ?? null,
    password_hash: users?.password_hash ?? null,
  };
};

/** Ends an expired link, so that a clock that is set back does not revive it. */
export const endLinkBeforeCaller = async ({ prisma }: Pick<Database, 'prisma'>, digest: Uint8Array): Promise<void> => {
  await prisma((client) => client.invitation_secrets.deleteMany({ where: { digest: Uint8Array.from(digest) } }));
};

/** Takes a link: one of several concurrent transactions gets it. @returns whether the link still works. */
export const takeLink = async (
  { query, tenant_id }: PrismaTransaction,
  invitation_id: string,
  digest: Uint8Array,
  now: Date,
): Promise<boolean> => (await query('take-link', LOCK_LINK, [tenant_id, invitation_id, digest, now])).length > 0;
