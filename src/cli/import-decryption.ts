// How the file of an import is decrypted: with a key of age or of OpenPGP, whichever the key file has.
import type { Readable } from 'node:stream';
import { createAgeDecryption } from '../platform/crypto/age-file.ts';
import { createOpenPgpDecryption, isOpenPgpKeyFile } from '../platform/crypto/openpgp-file.ts';
import type { CommandIo } from './command.ts';
import { readPassphrase } from './passphrase.ts';
import { throwUsage, UsageError } from './usage-error.ts';

export type Decryption = {
  /** Reads the file to its end, where it is authenticated only there. Chunks of age are authenticated one by one. */
  verify?(path: string): Promise<void>;
  open(sealed: Readable, name: string): Promise<Readable>;
};

/** @throws UsageError for a key file that cannot be used. */
export const createDecryption = async (
  io: CommandIo,
  keyFile: string,
  passphraseFile: string | undefined,
): Promise<Decryption> => {
  try {
    if (isOpenPgpKeyFile(keyFile))
      return await createOpenPgpDecryption(keyFile, () => readPassphrase(io, passphraseFile, keyFile));
    if (passphraseFile !== undefined) throw new UsageError('The option --passphrase-file is for keys of OpenPGP.');
    return { open: createAgeDecryption(keyFile) };
  } catch (error) {
    return throwUsage(error);
  }
};
