// Rows of passkeys, which belong to users. What matters of each is sealed.
import type { Database } from '../../../platform/db/database.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';

export type StoredPasskey = { id: string; sealed: Uint8Array; created_at: Date; used_at: Date | null };

const select = { id: true, sealed: true, created_at: true, used_at: true } as const;

const query = (user_id: string) => ({ where: { user_id }, select, orderBy: { created_at: 'asc' } }) as const;

export const listPasskeyRows = ({ prisma }: Pick<Database, 'prisma'>, user_id: string): Promise<StoredPasskey[]> =>
  prisma((client) => client.passkeys.findMany(query(user_id)));

/** Whether any user has one. */
export const hasPasskeys = async ({ prisma }: Pick<Database, 'prisma'>): Promise<boolean> =>
  (await prisma((client) => client.passkeys.findFirst({ select: { id: true } }))) !== null;

/** The transaction must hold the user. */
export const readPasskeyRows = ({ prisma }: PrismaTransaction, user_id: string): Promise<StoredPasskey[]> =>
  prisma.passkeys.findMany(query(user_id));

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
