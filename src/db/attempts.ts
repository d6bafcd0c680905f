// Rows of failed attempts: counted under a digest until their time is over, by all processes together. Knows neither who
// attempted nor what.
import type { Statements } from './statements.ts';

/** A count whose time is over begins anew. Bounded, so that no flood of attempts runs over. */
const COUNT = `
INSERT INTO attempts (digest, failures, ends_at) VALUES ($1, 1, $3)
ON CONFLICT (digest) DO UPDATE SET
  failures = CASE WHEN attempts.ends_at <= $2 THEN 1 ELSE least(attempts.failures, 1000000) + 1 END,
  ends_at = CASE WHEN attempts.ends_at <= $2 THEN $3 ELSE attempts.ends_at END
RETURNING failures, ends_at`;

const FIND = 'SELECT failures, ends_at FROM attempts WHERE digest = $1 AND ends_at > $2';

const TAKE_BACK = 'UPDATE attempts SET failures = failures - 1 WHERE digest = $1 AND failures > 0';

const CLEAR = 'DELETE FROM attempts WHERE digest = $1';

const CLEAR_RANGE = 'DELETE FROM attempts WHERE digest BETWEEN $1 AND $2';

const REMEMBER = `
INSERT INTO attempts (digest, failures, ends_at) VALUES ($1, 0, $2)
ON CONFLICT (digest) DO UPDATE SET ends_at = greatest(attempts.ends_at, $2)`;

export type CountedAttempts = { failures: number; ends_at: Date };

export const attemptStatements = ({ query }: Pick<Statements, 'query'>) => ({
  /** One more, from now on where none is counted yet. @returns the count with it. */
  countAttempt: async (digest: Uint8Array, now: Date, ends_at: Date): Promise<CountedAttempts> =>
    ((await query('count-attempt', COUNT, [digest, now, ends_at])) as [CountedAttempts])[0],

  findAttempts: async (digest: Uint8Array, now: Date): Promise<CountedAttempts | undefined> =>
    ((await query('find-attempts', FIND, [digest, now])) as CountedAttempts[])[0],

  /** The attempt that was counted last was none. */
  takeBackAttempt: async (digest: Uint8Array): Promise<void> => {
    await query('take-back-attempt', TAKE_BACK, [digest]);
  },

  clearAttempts: async (digest: Uint8Array): Promise<void> => {
    await query('clear-attempts', CLEAR, [digest]);
  },

  clearAttemptsBetween: async (first: Uint8Array, last: Uint8Array): Promise<void> => {
    await query('clear-attempts-between', CLEAR_RANGE, [first, last]);
  },

  /** Keeps a digest until then, with no failures. */
  rememberDigest: async (digest: Uint8Array, ends_at: Date): Promise<void> => {
    await query('remember-digest', REMEMBER, [digest, ends_at]);
  },
});
