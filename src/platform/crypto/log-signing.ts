// The keys that sign and verify checkpoints of the audit log. None of them is in the database.
import { type DigestKey, logSigningSeed } from './digest.ts';
import { type LogPublicKey, type LogSigningKey, signingKeyOfSeed } from './signed-note.ts';

export type LogSigning = {
  key: LogSigningKey;
  /** Keys of today and of earlier times. */
  publicKeys: readonly LogPublicKey[];
};

/**
 * The configured key, or the one that follows from the pepper. The database has the pepper only under the root key, so a writer of
 * the database cannot sign. The key from the pepper stays known: checkpoints from before a key was configured remain valid.
 */
export const openLogSigning = (
  configured: { logSigningKey: LogSigningKey | undefined; logPreviousKeys: readonly LogPublicKey[] },
  pepper: DigestKey,
): LogSigning => {
  const own = signingKeyOfSeed(logSigningSeed(pepper));
  const key = configured.logSigningKey ?? own;
  return { key, publicKeys: [key.publicKey, own.publicKey, ...configured.logPreviousKeys] };
};
