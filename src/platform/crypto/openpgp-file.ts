// Decrypts files that were encrypted with OpenPGP (RFC 9580), such as those of GnuPG, as streams.
import { once } from 'node:events';
import { createReadStream, readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import type { PrivateKey } from 'openpgp';
import { StartError } from '../base/errors.ts';

/** A stream of the web as one of Node's: their types differ in what no caller uses. */
type WebStream = Parameters<typeof Readable.fromWeb>[0];

const ARMOR = '-----BEGIN PGP';

/** The first byte of a packet has its highest bit set (RFC 9580, section 4.2); a text file does not begin so. */
const isPacket = (bytes: Uint8Array): boolean => ((bytes[0] ?? 0) & 0x80) !== 0;

/** Whether a file has keys of OpenPGP. False for a file that cannot be read. */
export const isOpenPgpKeyFile = (path: string): boolean => {
  try {
    const bytes = readFileSync(path);
    return isPacket(bytes) || bytes.toString('latin1').trimStart().startsWith(ARMOR);
  } catch {
    return false;
  }
};

/** The secret keys of a file, unlocked. @throws StartError. */
const readKeys = async (path: string, passphrase: () => Promise<string>): Promise<PrivateKey[]> => {
  const { decryptKey, readPrivateKeys } = await import('openpgp');
  const bytes = readFileSync(path);
  const keys = await (
    isPacket(bytes) ? readPrivateKeys({ binaryKeys: bytes }) : readPrivateKeys({ armoredKeys: bytes.toString('utf8') })
  ).catch((error: unknown) => {
    throw new StartError(
      `The key file ${path} has no secret key of OpenPGP that can be read. Export one: gpg --export-secret-keys --armor ID`,
      { cause: error },
    );
  });
  if (keys.every((key) => key.isDecrypted())) return keys;
  const text = await passphrase();
  const unlock = (key: PrivateKey): Promise<PrivateKey> =>
    decryptKey({ privateKey: key, passphrase: text }).catch((error: unknown) => {
      throw new StartError(`The passphrase does not unlock the key in ${path}.`, { cause: error });
    });
  return Promise.all(keys.map((key) => (key.isDecrypted() ? key : unlock(key))));
};

const damaged = (name: string, cause: unknown): StartError =>
  new StartError(`${name} was changed or cut off: it does not decrypt to its end.`, { cause });

/** Whether a message is text: armored. Leaves the stream as it was. */
const isText = async (sealed: Readable): Promise<boolean> => {
  await once(sealed, 'readable');
  const first = sealed.read() as Buffer | null;
  if (first) sealed.unshift(first);
  return first !== null && !isPacket(first);
};

/** Why a message does not open, by the library's own words: its errors have no codes. */
const openError = (error: unknown, name: string, keyFile: string): StartError => {
  const { message } = error as Error;
  const sentence = /decryption failed|No decryption key packets|No public key encrypted/.test(message)
    ? `No key in ${keyFile} opens ${name}: it was encrypted to another key, or to a passphrase.`
    : /not authenticated/.test(message)
      ? `${name} has no protection against changes. Have it encrypted again, such as by GnuPG 2.`
      : `${name} is not a file that was encrypted with OpenPGP, or was changed or cut off.`;
  return new StartError(sentence, { cause: error });
};

export type OpenPgpDecryption = {
  /**
   * Reads a file to its end, and keeps nothing of it.
   * @throws StartError for a file that was changed or cut off, or that no key opens.
   */
  verify(path: string): Promise<void>;
  /** Decrypts a stream. It fails at its end if it was changed: call `verify` before anything of it is used. */
  open(sealed: Readable, name: string): Promise<Readable>;
};

/**
 * Most messages of OpenPGP have one checksum, at their end (RFC 9580, section 5.13.1): plaintext that streams out before is not
 * authenticated, and to hold it back would need memory for all of it. So the file is read twice.
 * @param keyFile a file with secret keys, as gpg --export-secret-keys writes it.
 * @param passphrase asked if a key is locked.
 * @throws StartError for a file without a key, or another passphrase.
 */
export const createOpenPgpDecryption = async (
  keyFile: string,
  passphrase: () => Promise<string>,
): Promise<OpenPgpDecryption> => {
  const decryptionKeys = await readKeys(keyFile, passphrase);
  const { decrypt, readMessage } = await import('openpgp');
  const config = { allowUnauthenticatedStream: true, allowUnauthenticatedMessages: false };

  const open = async (sealed: Readable, name: string): Promise<Readable> => {
    try {
      const isArmored = await isText(sealed);
      const bytes = Readable.toWeb(sealed) as ReadableStream<Uint8Array<ArrayBuffer>>;
      const message = await (isArmored
        ? readMessage({ armoredMessage: bytes.pipeThrough(new TextDecoderStream()), config })
        : readMessage({ binaryMessage: bytes, config }));
      const { data } = await decrypt({ message, decryptionKeys, format: 'binary', config });
      return Readable.fromWeb(data as WebStream);
    } catch (error) {
      throw (error as NodeJS.ErrnoException).code === undefined ? openError(error, name, keyFile) : error;
    }
  };

  return {
    open,
    verify: async (path) => {
      const file = createReadStream(path);
      try {
        const plain = await open(file, path);
        for await (const _ of plain);
      } catch (error) {
        throw error instanceof StartError ? error : damaged(path, error);
      } finally {
        file.destroy();
      }
    },
  };
};
