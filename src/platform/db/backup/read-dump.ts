// Reads a dump as a stream: the manifest first, then the rows of each table by their length.
import { createSha256 } from '../../crypto/digest.ts';
import { StartError } from '../../base/errors.ts';
import { DUMP_FORMAT, type DumpedTable, type Manifest, manifestSchema } from './dump.ts';

/** A manifest lists tables, columns and migrations: some 20 KB today. */
const LINE_BYTES_MAX = 1024 * 1024;

const NEWLINE = 0x0a;

/** A dump whose manifest was parsed. The caller checks root key, environment and seal. */
export type Dump = {
  readonly manifest: Manifest;
  /** The line that was sealed, and its seal. */
  readonly head: string;
  readonly seal: string;
  /** The rows of the next table, in the order of the manifest. @throws StartError for other bytes than the manifest promises. */
  readTable(table: DumpedTable): AsyncGenerator<Buffer, void>;
  /** @throws StartError if anything follows, or the file ends in a way that it should not. */
  readEnd(): Promise<void>;
  /** Gives the file back. */
  close(): Promise<void>;
};

const damaged = (file: string, cause?: unknown): StartError =>
  new StartError(`${file} was cut off or changed: it cannot be read to its end. Nothing was restored.`, { cause });

/** Bytes in pieces, taken by line or by length. */
const createByteReader = (source: AsyncIterable<Uint8Array>, file: string) => {
  const pieces = source[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  /** @returns whether there are bytes. */
  const fill = async (): Promise<boolean> => {
    while (rest.length === 0) {
      const next = await pieces.next().catch((error: unknown) => {
        throw damaged(file, error);
      });
      if (next.done) return false;
      rest = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength);
    }
    return true;
  };
  return {
    async readLine(): Promise<string> {
      const parts: Buffer[] = [];
      let length = 0;
      while (await fill()) {
        const end = rest.indexOf(NEWLINE);
        const part = rest.subarray(0, end === -1 ? rest.length : end);
        parts.push(part);
        length += part.length;
        if (length > LINE_BYTES_MAX) break;
        rest = rest.subarray(end === -1 ? rest.length : end + 1);
        if (end !== -1) return Buffer.concat(parts).toString('utf8');
      }
      throw damaged(file);
    },
    async *take(bytes: number): AsyncGenerator<Buffer, void> {
      for (let left = bytes; left > 0;) {
        if (!(await fill())) throw damaged(file);
        const piece = rest.subarray(0, left);
        rest = rest.subarray(piece.length);
        left -= piece.length;
        yield piece;
      }
    },
    isAtEnd: async (): Promise<boolean> => !(await fill()),
    close: async (): Promise<void> => {
      await pieces.return?.();
    },
  };
};

const parseHead = (head: string, file: string, kind: Manifest['strongroom']): Manifest => {
  let value: { strongroom?: unknown; format?: unknown; product?: unknown };
  try {
    value = JSON.parse(head);
  } catch (error) {
    throw damaged(file, error);
  }
  if (value?.strongroom !== kind)
    throw new StartError(
      kind === 'backup'
        ? `${file} is no backup of Strongroom. Name a file that strongroom admin backup wrote.`
        : `${file} is no erasure list. Name a file that strongroom admin erasures export wrote.`,
    );
  if (typeof value.format === 'number' && value.format > DUMP_FORMAT)
    throw new StartError(
      `${file} was written by a newer version of Strongroom (${String(value.product)}). Restore it with that version.`,
    );
  const parsed = manifestSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw damaged(file, parsed.error);
};

/** Reads the manifest of a dump. @param file its name, for messages. @throws StartError. */
export const openDump = async (
  source: AsyncIterable<Uint8Array>,
  file: string,
  kind: Manifest['strongroom'],
): Promise<Dump> => {
  const reader = createByteReader(source, file);
  try {
    const head = await reader.readLine();
    const manifest = parseHead(head, file, kind);
    const seal = await reader.readLine();
    return {
      manifest,
      head,
      seal,
      async *readTable(table) {
        const digest = createSha256();
        for await (const piece of reader.take(table.bytes)) {
          digest.update(piece);
          yield piece;
        }
        if (digest.hex() !== table.sha256)
          throw new StartError(
            `The rows of ${table.name} in ${file} are not those of its manifest. Nothing was restored.`,
          );
      },
      readEnd: async () => {
        if (!(await reader.isAtEnd())) throw damaged(file);
      },
      close: reader.close,
    };
  } catch (error) {
    await reader.close().catch(() => undefined);
    throw error;
  }
};
