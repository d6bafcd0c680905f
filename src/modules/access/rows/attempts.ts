// Rows of failed attempts: counts under keyed digests that expire, shared by all processes.
import type { Database } from '../../../platform/db/database.ts';

type Rows = Pick<Database, 'prisma' | 'statements'>;

/** An expired count restarts. Bounded, so that it cannot overflow. */
const COUNT = `
INSERT INTO attempts (digest, failures, ends_at) VALUES ($1, $4, $3)
ON CONFLICT (digest) DO UPDATE SET
  failures = CASE WHEN attempts.ends_at <= $2 THEN $4 ELSE least(attempts.failures, 1000000) + $4 END,
  ends_at = CASE WHEN attempts.ends_at <= $2 THEN $3 ELSE attempts.ends_at END
RETURNING failures, ends_at`;

const CLEAR_RANGE = 'DELETE FROM attempts WHERE digest BETWEEN $1 AND $2';

const REMEMBER = `
INSERT INTO attempts (digest, failures, ends_at) VALUES ($1, 0, $2)
ON CONFLICT (digest) DO UPDATE SET ends_at = greatest(attempts.ends_at, $2)`;

export type CountedAttempts = { failures: number; ends_at: Date };

/** Adds one or more. @param ends_at when the count expires, if it begins now. @returns the count with them. */
export const addAttempt = async (
  { statements }: Rows,
  digest: Uint8Array,
  now: Date,
  ends_at: Date,
  count = 1,
): Promise<CountedAttempts> => {
  const [counted] = await statements.query('count-attempt', COUNT, [digest, now, ends_at, count]);
  return counted as CountedAttempts;
};

export const findAttempts = async (
  { prisma }: Rows,
  digest: Uint8Array,
  now: Date,
): Promise<CountedAttempts | undefined> => {
  const where = { digest: Uint8Array.from(digest), ends_at: { gt: now } };
  return (await prisma((client) => client.attempts.findFirst({ where }))) ?? undefined;
};

export const subtractAttempt = async ({ prisma }: Rows, digest: Uint8Array): Promise<void> => {
  const where = { digest: Uint8Array.from(digest), failures: { gt: 0 } };
  await prisma((client) => client.attempts.updateMany({ where, data: { failures: { decrement: 1 } } }));
};

export const deleteAttempts = async ({ prisma }: Rows, digest: Uint8Array): Promise<void> => {
  await prisma((client) => client.attempts.deleteMany({ where: { digest: Uint8Array.from(digest) } }));
};

/** SQL, since Prisma does not order bytes. */
export const deleteAttemptsBetween = async (
  { statements }: Rows,
  first: Uint8Array,
  last: Uint8Array,
): Promise<void> => {
  await statements.query('clear-attempts-between', CLEAR_RANGE, [first, last]);
};

/** Keeps a digest until then, with no failures. */
export const rememberDigest = async ({ statements }: Rows, digest: Uint8Array, ends_at: Date): Promise<void> => {
  await statements.query('remember-digest', REMEMBER, [digest, ends_at]);
};
