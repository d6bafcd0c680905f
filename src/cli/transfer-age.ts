// Decrypts the input of an import, and encrypts the output of an export, as streams of age (https://age-encryption.org/v1).
import { readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { Decrypter, Encrypter } from 'age-encryption';
import { UsageError } from './usage-error.ts';

/** Node and the browser declare one interface twice. */
type WebStream = Parameters<typeof Readable.fromWeb>[0];

const fromWeb = (stream: ReadableStream<Uint8Array>): Readable => Readable.fromWeb(stream as WebStream);
const toWeb = (stream: Readable) => Readable.toWeb(stream) as ReadableStream<Uint8Array>;

/**
 * @param recipient a public key, `age1...`.
 * @throws UsageError for another text.
 */
export const parseRecipient = (recipient: string): ((plain: Readable) => Promise<Readable>) => {
  const encrypter = new Encrypter();
  try {
    encrypter.addRecipient(recipient);
  } catch {
    throw new UsageError(
      'The option --to must be a public key of age, such as age1... Make one: age-keygen -o key.txt',
    );
  }
  return async (plain) => fromWeb(await encrypter.encrypt(toWeb(plain)));
};

/**
 * @param path a file of age-keygen: lines with `AGE-SECRET-KEY-1...`, and comments.
 * @returns a function that decrypts a stream. The stream fails where the file was changed or ends too early.
 * @throws UsageError for a file without a key; the function, for a file that the key does not open.
 */
export const readIdentity = (path: string): ((sealed: Readable) => Promise<Readable>) => {
  const decrypter = new Decrypter();
  let lines: string[];
  try {
    lines = readFileSync(path, 'utf8').split('\n');
  } catch (error) {
    throw new UsageError(`The key file ${path} cannot be read (${(error as NodeJS.ErrnoException).code}).`);
  }
  if (lines[0]?.startsWith('-----BEGIN PGP'))
    throw new UsageError(`${path} is an OpenPGP key. Encrypt the file to a key of age first: see the guide.`);
  const keys = lines.map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('#'));
  try {
    for (const key of keys) decrypter.addIdentity(key);
  } catch {
    keys.length = 0;
  }
  if (keys.length === 0) throw new UsageError(`The key file ${path} must have lines such as AGE-SECRET-KEY-1...`);
  return async (sealed) => {
    try {
      return fromWeb(await decrypter.decrypt(toWeb(sealed)));
    } catch {
      throw new UsageError(`The key in ${path} does not decrypt the file. Is it the right key, and an age file?`);
    }
  };
};
