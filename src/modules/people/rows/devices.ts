// Rows of a user's devices: the sealed secret of the second factor, its last step, recovery codes, and passkeys, each sealed.
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

export type StoredPasskey = { id: string; sealed: Uint8Array; created_at: Date; used_at: Date | null };

const passkeyColumns = { id: true, sealed: true, created_at: true, used_at: true } as const;

const passkeysOf = (user_id: string) =>
  ({ where: { user_id }, select: passkeyColumns, orderBy: { created_at: 'asc' } }) as const;

export const listPasskeyRows = ({ prisma }: Pick<Database, 'prisma'>, user_id: string): Promise<StoredPasskey[]> =>
  prisma((client) => client.passkeys.findMany(passkeysOf(user_id)));

/** Whether any user has one. */
export const hasPasskeys = async ({ prisma }: Pick<Database, 'prisma'>): Promise<boolean> =>
  (await prisma((client) => client.passkeys.findFirst({ select: { id: true } }))) !== null;

/** The transaction must hold the user. */
export const readPasskeyRows = ({ prisma }: PrismaTransaction, user_id: string): Promise<StoredPasskey[]> =>
  prisma.passkeys.findMany(passkeysOf(user_id));

export const insertPasskey = async (
  { prisma }: PrismaTransaction,
  row: { id: string; user_id: string; sealed: Uint8Array; created_at: Date },
): Promise<void> => {
  await prisma.passkeys.create({ data: { ...row, sealed: Uint8Array.from(row.sealed) } });
};

export const updatePasskey = async (
  { prisma }: PrismaTransaction,
  id: string,
  { sealed, used_at }: { sealed: Uint8Array; used_at?: Date },
): Promise<void> => {
  await prisma.passkeys.update({
    where: { id },
    data: { sealed: Uint8Array.from(sealed), ...(used_at && { used_at }) },
  });
};

/** Deletes all passkeys of a user but these. */
export const deletePasskeysExcept = async (
  { prisma }: PrismaTransaction,
  user_id: string,
  ids: readonly string[],
): Promise<void> => {
  await prisma.passkeys.deleteMany({ where: { user_id, id: { notIn: [...ids] } } });
};
