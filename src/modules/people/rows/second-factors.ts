// Columns of users with their second factor: the sealed secret of a device, its last step, and recovery codes.
import type { Database } from '../../../platform/db/database.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';

export type StoredSecondFactor = {
  /** Sealed. Null without a device, also without one that is being set up. */
  second_factor: Uint8Array | null;
  /** Null while it is being set up. */
  second_factor_since: Date | null;
  second_factor_step: bigint | null;
  recovery_digests: Uint8Array[];
};

const select = {
  second_factor: true,
  second_factor_since: true,
  second_factor_step: true,
  recovery_digests: true,
} as const;

export const findSecondFactor = async (
  { prisma }: Pick<Database, 'prisma'>,
  id: string,
): Promise<StoredSecondFactor | undefined> =>
  (await prisma((client) => client.users.findFirst({ where: { id }, select }))) ?? undefined;

/** The transaction must hold the user. */
export const readSecondFactor = async (
  { prisma }: PrismaTransaction,
  id: string,
): Promise<StoredSecondFactor | undefined> => (await prisma.users.findUnique({ where: { id }, select })) ?? undefined;

export const updateSecondFactor = async (
  { prisma, signing }: PrismaTransaction,
  id: string,
  { second_factor, recovery_digests, ...change }: Partial<StoredSecondFactor>,
): Promise<void> => {
  const data = {
    ...change,
    ...(second_factor !== undefined && { second_factor: second_factor && Uint8Array.from(second_factor) }),
    ...(recovery_digests && { recovery_digests: recovery_digests.map((digest) => Uint8Array.from(digest)) }),
  };
  await signing.change('users', id, id);
  await prisma.users.update({ where: { id }, data });
};
