// Rows of links that reset a password, found by the digest of their secret before a caller is known. One of a user, the newest.
import type { Database } from '../../../platform/db/database.ts';
import { signedColumns } from '../../../platform/db/signed-rows.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';
import type { FoundUser } from './users.ts';

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
