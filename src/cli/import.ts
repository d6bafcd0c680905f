// `strongroom import`: creates tokens from a file of another system, and writes that file again with their ids.
import { createReadStream, openSync, readSync, closeSync, statSync, writeFileSync } from 'node:fs';
import { findTenant, findTenants } from '../modules/access/rows/tenants.ts';
import { allowsAbsentPaths } from '../modules/access/caller-finder.ts';
import { operatorCreates } from '../modules/access/work.ts';
import { type ImportOutcome, type ImportRow, importTokens } from '../modules/tokens/import-tokens.ts';
import type { TokensContext } from '../modules/tokens/context.ts';
import { sha256Hex } from '../platform/crypto/digest.ts';
import { AppError, StartError } from '../platform/base/errors.ts';
import { headerLine, openImportFiles, resultLine } from './import-files.ts';
import { formatOf, hintsOf, idOf, type ImportFormat, parseRow, resultOf, withHeader } from './import-formats.ts';
import { openSource, type Source, type SourceRow } from './import-source.ts';
import { createDecryption, type Decryption } from './import-decryption.ts';
import type { CommandIo } from './command.ts';
import { throwUsage, UsageError } from './usage-error.ts';
import { PROGRAM } from '../platform/base/program.ts';

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
