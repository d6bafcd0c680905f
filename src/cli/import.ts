// `strongroom admin import`: creates tokens from a file of another system, and writes that file again with their ids.
import type { Readable } from 'node:stream';
import {
  closeSync,
  constants,
  createReadStream,
  existsSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { type FileHandle, open, rename, unlink, writeFile } from 'node:fs/promises';
import { z } from 'zod';
import { createAgeDecryption } from '../platform/crypto/age-file.ts';
import { createOpenPgpDecryption, isOpenPgpKeyFile } from '../platform/crypto/openpgp-file.ts';
import { type CommandIo, throwUsage, UsageError } from './command.ts';
import { readPassphrase } from './key-shares.ts';
import { csvCell } from '../platform/base/csv-cell.ts';
import { AppError, StartError } from '../platform/base/errors.ts';
import type { Json } from '../platform/json/json.ts';
import { findTenant, findTenants } from '../modules/access/rows/tenants.ts';
import { allowsAbsentPaths } from '../modules/access/caller-finder.ts';
import { operatorCreates } from '../modules/access/work.ts';
import { type ImportOutcome, type ImportRow, importTokens } from '../modules/tokens/import-tokens.ts';
import type { TokensContext } from '../modules/tokens/context.ts';
import { sha256Hex } from '../platform/crypto/digest.ts';
import { formatOf, hintsOf, idOf, type ImportFormat, parseRow, resultOf, withHeader } from './import-formats.ts';
import { openSource, type Source, type SourceRow } from './import-source.ts';
import { PROGRAM } from '../platform/base/program.ts';

// How the file of an import is decrypted: with a key of age or of OpenPGP, whichever the key file has.

type Decryption = {
  /** Reads the file to its end, where it is authenticated only there. Chunks of age are authenticated one by one. */
  verify?(path: string): Promise<void>;
  open(sealed: Readable, name: string): Promise<Readable>;
};

/** @throws UsageError for a key file that cannot be used. */
const createDecryption = async (
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

// The files that an import writes: the result, the faults, and the state from which a stopped import continues.

const count = z.int().min(0);

const stateSchema = z.object({
  /** A digest of the input and the options: another import must not continue this one. */
  of: z.string(),
  /** The last row that the files account for. */
  at: count,
  created: count,
  existing: count,
  faults: count,
  resultBytes: count,
  faultBytes: count,
});

type ImportState = z.infer<typeof stateSchema>;

const READABLE_BY_OWNER = 0o600;

/** @throws StartError for a write that the system refuses, such as on a full disk. */
const attempt = async <T>(path: string, write: () => Promise<T>): Promise<T> => {
  try {
    return await write();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StartError(
      `${path} cannot be written (${code}). Make room, then run the same command again: it continues where it stopped.`,
    );
  }
};

const csvField = (value: Json | undefined): string =>
  value === null || value === undefined ? '' : csvCell(typeof value === 'string' ? value : JSON.stringify(value));

/** A line of the result: CSV for a header, JSON without one. */
export const resultLine = (header: readonly string[] | undefined, columns: Record<string, Json>): string =>
  header === undefined
    ? `${JSON.stringify(columns)}\n`
    : `${header.map((name) => csvField(columns[name])).join(',')}\n`;

const headerLine = (header: readonly string[]): string => `${header.map(csvCell).join(',')}\n`;

const readState = (path: string): ImportState | undefined => {
  if (!existsSync(path)) return undefined;
  try {
    return stateSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    throw new UsageError(`${path} is not the state of an import. Remove it, or name another --result.`);
  }
};

type ImportFiles = {
  /** State in which an earlier run stopped, or that of a new import. */
  readonly state: ImportState;
  /** Appends lines, then records that they are written. @throws StartError. */
  write(result: string, faults: string, state: Omit<ImportState, 'of' | 'resultBytes' | 'faultBytes'>): Promise<void>;
  /** Removes the state: the import is complete. */
  finish(): Promise<void>;
  close(): Promise<void>;
};

/**
 * Opens the files of an import: new ones, or those of an earlier run of the same import, cut to what its state says.
 * @throws UsageError for a result that exists without a state, or with that of another import.
 */
const openImportFiles = async (result: string, of: string): Promise<ImportFiles> => {
  const statePath = `${result}.state`;
  const faultsPath = `${result}.faults`;
  const earlier = readState(statePath);
  if (earlier && earlier.of !== of)
    throw new UsageError(`${statePath} belongs to another file or other options. Name another --result.`);
  const { O_CREAT, O_EXCL, O_RDWR } = constants;
  const openOne = async (path: string, bytes: number | undefined): Promise<FileHandle> => {
    try {
      const file = await open(path, bytes === undefined ? O_CREAT | O_EXCL | O_RDWR : O_RDWR, READABLE_BY_OWNER);
      if (bytes === undefined) return file;
      if ((await file.stat()).size < bytes) throw new UsageError(`${path} is shorter than ${statePath} says.`);
      await file.truncate(bytes);
      return file;
    } catch (error) {
      if (error instanceof UsageError) throw error;
      const { code } = error as NodeJS.ErrnoException;
      throw new UsageError(
        code === 'EEXIST'
          ? `${path} exists, and is not overwritten. Name another --result.`
          : `${path} cannot be opened (${code}). Name another --result.`,
      );
    }
  };
  const resultFile = await openOne(result, earlier?.resultBytes);
  const faultFile = await openOne(faultsPath, earlier?.faultBytes).catch(async (error: unknown) => {
    await resultFile.close();
    // Made just now, and empty.
    if (!earlier) await unlink(result);
    throw error;
  });
  const state = earlier ?? { of, at: 0, created: 0, existing: 0, faults: 0, resultBytes: 0, faultBytes: 0 };

  const append = (path: string, file: FileHandle, text: string, at: number): Promise<number> =>
    attempt(path, async () => {
      if (text === '') return at;
      const bytes = Buffer.from(text);
      for (let done = 0; done < bytes.length;)
        done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
      await file.datasync();
      return at + bytes.length;
    });

  return {
    state,
    write: async (resultText, faultText, counts) => {
      const resultBytes = await append(result, resultFile, resultText, state.resultBytes);
      const faultBytes = await append(faultsPath, faultFile, faultText, state.faultBytes);
      Object.assign(state, counts, { resultBytes, faultBytes });
      await attempt(statePath, async () => {
        await writeFile(`${statePath}.new`, JSON.stringify(state), { mode: READABLE_BY_OWNER });
        await rename(`${statePath}.new`, statePath);
      });
    },
    finish: () => attempt(statePath, () => unlink(statePath)),
    close: async () => {
      await resultFile.close();
      await faultFile.close();
    },
  };
};

/** Rows of one statement. Larger batches are hardly faster, and a stopped import repeats one batch. */
const BATCH_ROWS = 500;

/** Bytes at the beginning of a file that tell it from another. */
const HEAD_BYTES = 65_536;

const PROGRESS_MS = 5_000;

export type ImportOptions = {
  file: string;
  format: ImportFormat;
  /** Identifies the options: the same command continues an import. */
  given: string;
  result: string;
  isDryRun: boolean;
  decryption: Decryption | undefined;
};

export type ImportCounts = { rows: number; created: number; existing: number; faults: number };

type Values = {
  format?: string | undefined;
  id?: string | undefined;
  map?: string | undefined;
  type?: string | undefined;
  'number-format'?: string | undefined;
  decrypt?: string | undefined;
  'passphrase-file'?: string | undefined;
  result?: string | undefined;
  'dry-run'?: boolean | undefined;
};

/** @throws UsageError. */
export const parseImportOptions = async (io: CommandIo, file: string, values: Values): Promise<ImportOptions> => {
  const { id, map, type, 'number-format': numbers, decrypt, 'passphrase-file': passphraseFile } = values;
  const given = {
    ...(id !== undefined && { id }),
    ...(map !== undefined && { map }),
    ...(type && { type }),
    ...(numbers !== undefined && { 'number-format': numbers }),
  };
  const format = formatOf(values.format ?? '', given);
  return {
    file,
    format,
    given: JSON.stringify([values.format, id, map, type, ...(numbers === 'loose' ? [numbers] : [])]),
    result: values.result ?? `${file}.result`,
    isDryRun: values['dry-run'] ?? false,
    decryption: decrypt === undefined ? undefined : await createDecryption(io, decrypt, passphraseFile),
  };
};

/** @returns the size and the first bytes. @throws UsageError for a file that cannot be read. */
const inspectFile = (path: string): { size: number; head: string } => {
  try {
    const file = openSync(path, 'r');
    try {
      const head = Buffer.alloc(HEAD_BYTES);
      const bytes = readSync(file, head, 0, HEAD_BYTES, 0);
      return { size: statSync(path).size, head: head.toString('base64', 0, bytes) };
    } finally {
      closeSync(file);
    }
  } catch (error) {
    throw new UsageError(`${path} cannot be read (${(error as NodeJS.ErrnoException).code}).`);
  }
};

/** @throws UsageError for an id without a tenant. */
export const checkTenant = async (ctx: Pick<TokensContext, 'db'>, tenant_id: string): Promise<void> => {
  if ((await findTenants(ctx.db, tenant_id)).length === 0)
    throw new UsageError(`There is no tenant ${tenant_id}. List them: ${PROGRAM} tenants list`);
};

/** Says on stderr how far an import is, at most once in PROGRESS_MS. */
const createProgress = ({ say }: CommandIo, now: () => Date, size: number, bytesRead: () => number) => {
  const start = now().getTime();
  let last = start;
  return (rows: number): void => {
    const at = now().getTime();
    if (at - last < PROGRESS_MS) return;
    last = at;
    const seconds = (at - start) / 1000;
    const part = Math.min(1, bytesRead() / Math.max(1, size));
    const left = part > 0 ? Math.ceil((seconds / part) * (1 - part)) : 0;
    say(`${rows} rows, ${Math.floor(part * 100)} %, ${Math.round(rows / seconds)} rows/s, ${left} s left`);
  };
};

/** Batches of rows after the first `after`. Rows before an error are passed on before it is thrown. */
async function* batchesOf(rows: AsyncIterable<SourceRow>, after: number): AsyncGenerator<SourceRow[]> {
  let batch: SourceRow[] = [];
  let failure: { error: unknown } | undefined;
  try {
    for await (const row of rows) {
      if (row.at <= after) continue;
      batch.push(row);
      if (batch.length < BATCH_ROWS) continue;
      yield batch;
      batch = [];
    }
  } catch (error) {
    failure = { error };
  }
  if (batch.length > 0) yield batch;
  if (failure) throw failure.error;
}

/** The outcome of each row of a batch, in order. */
const importBatch = async (
  batch: readonly SourceRow[],
  format: ImportFormat,
  create: (rows: readonly ImportRow[]) => Promise<ImportOutcome[]>,
): Promise<ImportOutcome[]> => {
  const wanted: ImportRow[] = [];
  const reasons = batch.map((row) => {
    if ('reason' in row) return row.reason;
    const id = idOf(format, row.columns);
    if (id === undefined) return `it has no id in ${format.id}`;
    const parsed = parseRow(format, row.columns);
    if ('reason' in parsed) return parsed.reason;
    wanted.push({ id, request: parsed.request });
    return undefined;
  });
  const outcomes = (await create(wanted))[Symbol.iterator]();
  return reasons.map((reason, at): ImportOutcome => {
    const outcome =
      reason === undefined ? (outcomes.next().value as ImportOutcome) : { kind: 'fault' as const, reason };
    const row = batch[at] as SourceRow;
    if (outcome.kind !== 'fault' || 'reason' in row) return outcome;
    return { kind: 'fault', reason: outcome.reason + hintsOf(format, row.columns) };
  });
};

/** An error while rows are read, in words for the operator. */
const readError = (error: unknown, path: string): unknown => {
  if (error instanceof StartError || error instanceof AppError) return error;
  const { code } = error as NodeJS.ErrnoException;
  return new StartError(
    `${path} cannot be read to its end${code === undefined ? '' : ` (${code})`}: it was changed, cut off, or is no file of this format. The rows before that are imported.`,
  );
};

/**
 * Imports a file into a tenant. The rows of a batch are committed before the files name them; a run that was stopped
 * continues after the last batch, and finds the tokens of the batch after it by their ids.
 * @throws UsageError before the first row; StartError for a file that cannot be read or written; unavailable.
 */
export const importFile = async (
  io: CommandIo,
  ctx: TokensContext,
  tenant_id: string,
  options: ImportOptions,
): Promise<ImportCounts> => {
  const { file, isDryRun, result, decryption } = options;
  const { size, head } = inspectFile(file);
  await checkTenant(ctx, tenant_id);
  if (decryption?.verify) {
    io.say(`Checks that ${file} is whole, before its first row is read.`);
    await decryption.verify(file).catch(throwUsage);
  }
  const raw = createReadStream(file);
  try {
    // Each part waits for the file, so that a wrong key leaves no result file.
    const plain = decryption ? await decryption.open(raw, file).catch(throwUsage) : raw;
    const source: Source = await openSource(options.format, plain);
    const format = source.header ? withHeader(options.format, source.header) : options.format;
    const of = sha256Hex(JSON.stringify([tenant_id, options.given, size, head]));
    const files = isDryRun ? undefined : await openImportFiles(result, of);
    try {
      const { at = 0, created = 0, existing = 0, faults = 0 } = files?.state ?? {};
      if (at > 0) io.say(`Continues after row ${at}.`);
      const counts = { created, existing, faults };
      const { settings = {} } = (await findTenant(ctx.db.for({ tenant_id }))) ?? {};
      const warned = new Set<string>();
      const work = operatorCreates(ctx, tenant_id, {
        allows_absent_paths: allowsAbsentPaths(settings as Record<string, string>),
        warn: (sentence) => {
          if (!warned.has(sentence)) io.say(`Warning: ${sentence}`);
          warned.add(sentence);
        },
      });
      const showProgress = createProgress(io, ctx.now, size, () => raw.bytesRead);
      if (isDryRun) writeFileSync(`${result}.dry-run.faults`, '', { mode: 0o600 });
      let done = 0;
      if (files && at === 0) await files.write(source.header ? headerLine(source.header) : '', '', { at, ...counts });
      for await (const batch of batchesOf(source.rows, at)) {
        const outcomes = await importBatch(batch, format, (rows) => importTokens(ctx, work, rows, isDryRun));
        let resultText = '';
        let faultText = '';
        for (const [index, outcome] of outcomes.entries()) {
          const row = batch[index] as SourceRow;
          if (outcome.kind === 'fault') {
            counts.faults += 1;
            faultText += `${JSON.stringify({ row: row.at, reason: outcome.reason })}\n`;
            continue;
          }
          counts[outcome.kind] += 1;
          if ('columns' in row)
            resultText += resultLine(source.header, resultOf(format, row.columns, outcome.token_id));
        }
        if (files) await files.write(resultText, faultText, { at: (batch.at(-1) as SourceRow).at, ...counts });
        else writeFileSync(`${result}.dry-run.faults`, faultText, { flag: 'a' });
        done += batch.length;
        showProgress(done);
      }
      await files?.finish();
      return { rows: counts.created + counts.existing + counts.faults, ...counts };
    } finally {
      await files?.close();
    }
  } catch (error) {
    throw readError(error, file);
  } finally {
    raw.destroy();
  }
};
