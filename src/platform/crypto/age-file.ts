// Encrypts streams to a recipient, and decrypts them with an identity, in the format of age (https://age-encryption.org/v1).
import { readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { Decrypter, Encrypter } from 'age-encryption';
import { StartError } from '../base/errors.ts';

/** A stream of the web as one of Node's: their types differ in what no caller uses. */
type WebStream = Parameters<typeof Readable.fromWeb>[0];

/**
 * Encrypts in chunks of 64 KiB, as they are read.
 * @param recipient a public key such as `age1...`.
 * @throws StartError for a text that is no recipient.
 */
export const createAgeEncryption = (recipient: string): ((plain: Readable) => Promise<Readable>) => {
  const encrypter = new Encrypter();
  try {
    encrypter.addRecipient(recipient);
  } catch {
    throw new StartError(
      'The option --to must be the public key of an age recipient, such as age1... Make a key pair: age-keygen -o backup.key',
    );
  }
  return async (plain) =>
    Readable.fromWeb((await encrypter.encrypt(Readable.toWeb(plain) as ReadableStream<Uint8Array>)) as WebStream);
};

/** The identities in a key file: a line each, beside comments. */
const readIdentities = (path: string): string[] => {
  try {
    const lines = readFileSync(path, 'utf8').split('\n');
    return lines.map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('#'));
  } catch (error) {
    throw new StartError(
      `The key file ${path} cannot be read (${(error as NodeJS.ErrnoException).code}). Name the file that age-keygen wrote.`,
    );
  }
};

/**
 * Decrypts in chunks of 64 KiB. The stream fails where the file was changed, and at its end if it was cut off.
 * @param keyFile a file of age-keygen, with secret keys such as `AGE-SECRET-KEY-1...`.
 * @throws StartError for a key file that has none.
 */
export const createAgeDecryption = (keyFile: string): ((sealed: Readable, name: string) => Promise<Readable>) => {
  const decrypter = new Decrypter();
  const identities = readIdentities(keyFile);
  try {
    for (const identity of identities) decrypter.addIdentity(identity);
  } catch {
    identities.length = 0;
  }
  if (identities.length === 0)
    throw new StartError(
      `The key file ${keyFile} has no identity that can be read. It must have lines such as AGE-SECRET-KEY-1..., as age-keygen writes them.`,
    );
  return async (sealed, name) => {
    try {
      return Readable.fromWeb(
        (await decrypter.decrypt(Readable.toWeb(sealed) as ReadableStream<Uint8Array>)) as WebStream,
      );
    } catch (error) {
      // The library's own words: its errors have no codes.
      const isOther = /no identity matched/.test((error as Error).message);
      throw new StartError(
        isOther
          ? `No identity in ${keyFile} opens ${name}: it was encrypted to another recipient, or its first lines were changed.`
          : `${name} is not a file that was encrypted with age, or its first lines are damaged.`,
      );
    }
  };
};
