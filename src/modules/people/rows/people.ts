// What the rows of members and invitations share: roles, the lock on a tenant's people, and the end of links.
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';
import { dropMails } from '../../../platform/mail/mail-outbox.ts';

/**
 * Serialises changes of a tenant's members and invitations until the transaction ends. Each such transaction begins with it and
 * takes other locks afterwards, so that none deadlock.
 * @returns whether the tenant exists.
 */
export const lockTenant = ({ signing }: PrismaTransaction): Promise<boolean> => signing.holds('tenants');

/** Members and invitations together: accepting an invitation does not change the sum. */
export const countPeople = async ({ prisma, tenant_id }: PrismaTransaction): Promise<number> => {
  const where = { tenant_id };
  return (await prisma.members.count({ where })) + (await prisma.invitations.count({ where }));
};

export const hasOwner = async ({ prisma, tenant_id }: PrismaTransaction): Promise<boolean> =>
  (await prisma.members.count({ where: { tenant_id, role: 'OWNER' } })) > 0;

/** Ends the links of invitations, and the mails that would bring them. */
export const endLinks = async (tx: PrismaTransaction, invitation_ids: string[]): Promise<void> => {
  if (invitation_ids.length === 0) return;
  const where = { tenant_id: tx.tenant_id, invitation_id: { in: invitation_ids } };
  await tx.signing.revoke('tenants');
  await tx.prisma.invitation_secrets.deleteMany({ where });
  await dropMails(tx, invitation_ids);
};
