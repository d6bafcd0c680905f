// An archive of audit log rows: lines of JSON in a gzip file, and a manifest beside it with counts and SHA-256 hashes.
import { createReadStream } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline, Readable } from 'node:stream';
import { createGunzip, createGzip } from 'node:zlib';
import { z } from 'zod';
import { LEAST_ID, timeOfId } from '../crypto/ids.ts';
import { idsOfLine } from '../db/leaf.ts';
import { readMonthOfTree } from './log-proof.ts';
import type { ProofEvent } from './log-verifier.ts';
import { type LogSigningKey, parseCheckpoint } from '../crypto/signed-note.ts';
import type { LogLine, LogPartition } from '../db/log-partitions.ts';
import { type ArchiveMark, findTreeAfter, signMark } from '../db/log-trees.ts';
import type { Query } from '../db/statements.ts';
import { eventOf, headerText, lineOf, parseHeader } from './log-proof-file.ts';
import { parseJson } from '../json/json.ts';
import { createSha256 } from '../crypto/digest.ts';
import { StartError } from '../base/errors.ts';
import { checkNewFile, writeNewFile } from '../base/files.ts';
import { version } from '../base/version.ts';

// The proof of an archive: written from the trees of the tenants, and read together with the rows.

/** The proof of a partition with an upper bound. */
export const proofOfPartition = (query: Query, { from_id }: LogPartition, to_id: string, now: Date): ArchiveProof => {
  const roots: string[] = [];
  const lines = async function* (): AsyncGenerator<string> {
    yield headerText('log-proof', undefined, now);
    let tenant_id = await findTreeAfter(query, LEAST_ID);
    for (; tenant_id !== undefined; tenant_id = await findTreeAfter(query, tenant_id)) {
      let newest: string | undefined;
      for await (const event of readMonthOfTree(query, tenant_id, { from_id, to_id })) {
        if (event.kind === 'checkpoint') newest = event.note;
        if (event.kind !== 'damage') yield lineOf(event);
      }
      if (newest !== undefined) roots.push(newest);
    }
  };
  return { lines: lines(), roots: () => roots };
};

type Row = { tenant_id: string; id: string; line: string };

/** Rows of an archive. One that does not say what it is sorts before all others, and belongs to no leaf. */
const rowsOf = async function* (lines: AsyncIterable<string>): AsyncGenerator<Row> {
  for await (const line of lines) yield { ...(idsOfLine(line) ?? { tenant_id: '', id: '' }), line };
};

/** The events of an archive: its leaves with the rows that they should be the hashes of. @throws StartError. */
export const readArchiveEvents = async function* (path: string): AsyncGenerator<ProofEvent> {
  const { roots, proof, rows: lines } = await openProvenArchive(path);
  const newestOf = new Map(roots.map((note) => [parseCheckpoint(note)?.tenant_id, note]));
  const rows = rowsOf(lines);
  let next = await rows.next();
  const added = async function* (isBefore: (row: Row) => boolean): AsyncGenerator<ProofEvent> {
    for (; !next.done && isBefore(next.value); next = await rows.next()) {
      const { tenant_id, id, line } = next.value;
      yield { kind: 'row', tenant_id, id: id === '' ? undefined : id, line };
    }
  };

  let tenant_id: string | undefined;
  let number = 0;
  for await (const text of proof) {
    number += 1;
    if (number === 1) {
      if (typeof parseHeader(text) !== 'object')
        yield { kind: 'damage', text: 'The first line of the proof was changed.' };
      continue;
    }
    const event = eventOf(text, tenant_id, `Line ${number} of the proof`);
    if (event.kind === 'tree') {
      const of = event.tenant_id;
      yield* added((row) => row.tenant_id < of);
      const newest = newestOf.get(of);
      if (newest === undefined) yield { kind: 'damage', text: `The manifest has no signed root of the tenant ${of}.` };
      yield { ...event, newest };
      newestOf.delete(of);
      tenant_id = of;
    } else if (event.kind === 'leaf') {
      const { id } = event;
      const isSooner = (row: Row): boolean =>
        row.tenant_id === tenant_id ? row.id < id : row.tenant_id < (tenant_id as string);
      yield* added(isSooner);
      const isHere = !next.done && next.value.tenant_id === tenant_id && next.value.id === id;
      yield { ...event, isArchived: false, line: isHere ? (next.value as Row).line : undefined };
      if (isHere) next = await rows.next();
    } else yield event;
  }
  yield* added(() => true);
  for (const [of] of newestOf)
    yield { kind: 'damage', text: `The proof of the tenant ${of ?? 'of a signed root'} is missing.` };
};

/** Raised when an earlier release could not read an archive. */
const ARCHIVE_FORMAT = 1;

const whole = z.number().int().nonnegative();
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);

/** A later release may add keys. */
const manifestSchema = z.looseObject({
  strongroom: z.literal('log-archive'),
  format: z.number().int(),
  /** The version of the release that wrote it. */
  product: z.string(),
  made_at: z.iso.datetime(),
  partition: z.string(),
  /** Ids of rows are from `from_id` on and below `to_id`; their times likewise. Null: no bound. */
  from_id: z.string().nullable(),
  to_id: z.string().nullable(),
  from: z.iso.datetime().nullable(),
  to: z.iso.datetime().nullable(),
  rows: whole,
  /** Rows of each tenant. */
  tenants: z.record(z.string(), whole),
  file: z.object({ name: z.string(), bytes: whole, sha256 }),
  /** Size and digest of the lines before compression. */
  lines: z.object({ bytes: whole, sha256 }),
  /** The newest checkpoint of each tenant over rows of the month. Empty where the log was not signed yet. */
  signed_roots: z.array(z.unknown()),
  /** The leaf hashes and checkpoints of the month. */
  proof: z.object({ name: z.string(), bytes: whole, sha256 }).optional(),
  /** The signature of the key of the log over bounds, rows and `lines.sha256`. An earlier release wrote none. */
  mark: z.string().optional(),
});

export type LogManifest = z.infer<typeof manifestSchema>;

/** Undefined for the partition above all months. */
export const markOf = ({ from_id, to_id, rows, lines }: LogManifest): ArchiveMark | undefined =>
  to_id === null ? undefined : { from_id, to_id, rows, sha256: lines.sha256 };

const SUFFIX = '.jsonl.gz';

/** Path of the archive of a partition: audit-log-2026-08.jsonl.gz. */
export const archivePath = (directory: string, partition: LogPartition): string =>
  join(directory, `${partition.name.replaceAll('_', '-')}${SUFFIX}`);

/** audit-log-2026-08.proof.jsonl.gz, beside the archive. */
const proofPath = (path: string): string => join(dirname(path), `${basename(path, SUFFIX)}.proof${SUFFIX}`);

export const isArchivePath = (path: string): boolean => path.endsWith(SUFFIX);

const manifestPath = (path: string): string => join(dirname(path), `${basename(path, SUFFIX)}.manifest.json`);

const timeText = (id: string | null): string | null => (id === null ? null : timeOfId(id).toISOString());

/** Counts and digests of lines on their way. */
const createTally = () => {
  const digest = createSha256();
  const tenants: Record<string, number> = {};
  const tally = { rows: 0, bytes: 0 };
  return {
    add(tenant_id: string, line: Buffer): void {
      digest.update(line);
      tally.rows += 1;
      tally.bytes += line.length;
      tenants[tenant_id] = (tenants[tenant_id] ?? 0) + 1;
    },
    end: () => ({ rows: tally.rows, tenants, lines: { bytes: tally.bytes, sha256: digest.hex() } }),
  };
};

export type LogTally = ReturnType<ReturnType<typeof createTally>['end']>;

const tallied = async function* (
  batches: AsyncIterable<LogLine[]>,
  tally: ReturnType<typeof createTally>,
): AsyncGenerator<Buffer> {
  for await (const batch of batches) {
    const lines = batch.map(({ tenant_id, line }) => {
      const bytes = Buffer.from(`${line}\n`);
      tally.add(tenant_id, bytes);
      return bytes;
    });
    yield Buffer.concat(lines);
  }
};

/** Counts and digests rows without writing them. */
export const tallyOf = async (batches: AsyncIterable<LogLine[]>): Promise<LogTally> => {
  const tally = createTally();
  for await (const _ of tallied(batches, tally));
  return tally.end();
};

/** Writes pieces to a new file, compressed. @throws StartError; what the pieces throw. */
const writePacked = async (path: string, pieces: AsyncIterable<Buffer>): Promise<LogManifest['file']> => {
  const digest = createSha256();
  let bytes = 0;
  const packed = async function* (): AsyncGenerator<Buffer> {
    const gzip = createGzip();
    pipeline(Readable.from(pieces, { objectMode: false }), gzip, () => undefined);
    for await (const piece of gzip as AsyncIterable<Buffer>) {
      digest.update(piece);
      bytes += piece.length;
      yield piece;
    }
  };
  await writeNewFile(path, Readable.from(packed(), { objectMode: false }));
  return { name: basename(path), bytes, sha256: digest.hex() };
};

/** What proves the rows of an archive. The roots are known once the lines are read. */
export type ArchiveProof = { lines: AsyncIterable<string>; roots(): string[] };

const proofBytes = async function* (lines: AsyncIterable<string>): AsyncGenerator<Buffer> {
  for await (const line of lines) yield Buffer.from(`${line}\n`);
};

/**
 * Writes an archive, its proof and its manifest, all whole and on disk.
 * @throws StartError if a file exists or cannot be written.
 */
export const writeLogArchive = async (
  path: string,
  partition: LogPartition,
  batches: AsyncIterable<LogLine[]>,
  proof: ArchiveProof | undefined,
  key: LogSigningKey,
  now: Date,
): Promise<LogManifest> => {
  await checkNewFile(path);
  await checkNewFile(manifestPath(path));
  // A run that was stopped before it wrote the rows may have left its proof.
  await rm(proofPath(path), { force: true });
  const proofFile = proof && (await writePacked(proofPath(path), proofBytes(proof.lines)));
  const tally = createTally();
  const file = await writePacked(path, tallied(batches, tally));
  const { name, from_id, to_id } = partition;
  const manifest: LogManifest = {
    strongroom: 'log-archive',
    format: ARCHIVE_FORMAT,
    product: version,
    made_at: now.toISOString(),
    partition: name,
    from_id,
    to_id,
    from: timeText(from_id),
    to: timeText(to_id),
    ...tally.end(),
    file,
    signed_roots: proof?.roots() ?? [],
    ...(proofFile ? { proof: proofFile } : {}),
  };
  const mark = markOf(manifest);
  if (mark) manifest.mark = signMark(key, mark);
  await writeNewFile(manifestPath(path), Readable.from([Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`)]));
  return manifest;
};

/** @throws StartError. */
export const readManifest = async (path: string): Promise<LogManifest> => {
  const beside = manifestPath(path);
  const text = await readFile(beside, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new StartError(
      error.code === 'ENOENT'
        ? `${path} has no manifest: ${beside} does not exist.`
        : `${beside} cannot be read (${error.code}).`,
    );
  });
  const parsed = manifestSchema.safeParse(parseJson(text));
  if (!parsed.success) throw new StartError(`${beside} is no manifest of an archive, or it was changed.`);
  if (parsed.data.format > ARCHIVE_FORMAT)
    throw new StartError(
      `${path} was written by a newer version of Strongroom (${parsed.data.product}). Read it with that version.`,
    );
  return parsed.data;
};

/** Longer than any line: the entities of one operation have a limit. */
const LINE_BYTES_MAX = 16 * 1024 * 1024;

/** The lines of a file, each with its line end. */
export const readLines = async function* (pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const piece of pieces) {
    let buffer = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    for (let end = buffer.indexOf(0x0a); end !== -1; end = buffer.indexOf(0x0a)) {
      yield buffer.subarray(0, end + 1);
      buffer = buffer.subarray(end + 1);
    }
    if (buffer.length > LINE_BYTES_MAX) throw new Error('a line is too long');
    rest = buffer;
  }
  if (rest.length > 0) yield rest;
};

const readPacked = async function* (path: string, note: (piece: Buffer) => void): AsyncGenerator<Buffer> {
  const gunzip = createGunzip();
  const noted = async function* (): AsyncGenerator<Buffer> {
    for await (const piece of createReadStream(path) as AsyncIterable<Buffer>) {
      note(piece);
      yield piece;
    }
  };
  pipeline(Readable.from(noted(), { objectMode: false }), gunzip, () => undefined);
  yield* gunzip as AsyncIterable<Buffer>;
};

/** The lines of a packed file, without their line ends. @throws StartError. */
const readPackedLines = async function* (path: string): AsyncGenerator<string> {
  try {
    for await (const line of readLines(readPacked(path, () => undefined)))
      yield line.toString('utf8').replace(/\n$/, '');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw code === 'ENOENT' || code === 'EACCES'
      ? new StartError(`${path} cannot be read (${code}).`)
      : altered(path, error);
  }
};

/**
 * An archive with its proof, as it is on disk: nothing is compared with the manifest.
 * @returns the newest checkpoints, the lines of the proof, and the rows. @throws StartError without a manifest or a proof.
 */
const openProvenArchive = async (
  path: string,
): Promise<{ roots: string[]; proof: AsyncGenerator<string>; rows: AsyncGenerator<string> }> => {
  const { signed_roots, proof } = await readManifest(path);
  const roots = signed_roots.filter((root) => typeof root === 'string');
  if (proof === undefined || roots.length === 0)
    throw new StartError(`${path} has no signed checkpoints: nothing proves its rows.`);
  return { roots, proof: readPackedLines(proofPath(path)), rows: readPackedLines(path) };
};

const tenantOf = (line: Buffer): string =>
  String((JSON.parse(line.toString('utf8')) as { tenant_id: unknown }).tenant_id);

/** Compares an archive with the hashes and counts of its manifest. @throws StartError. */
export const verifyLogArchive = async (path: string): Promise<LogManifest> => {
  const manifest = await readManifest(path);
  const digest = createSha256();
  const tally = createTally();
  let bytes = 0;
  try {
    const unpacked = readPacked(path, (piece) => {
      digest.update(piece);
      bytes += piece.length;
    });
    for await (const line of readLines(unpacked)) tally.add(tenantOf(line), line);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'EACCES') throw new StartError(`${path} cannot be read (${code}).`);
    throw altered(path, error);
  }
  const { rows, tenants, lines } = tally.end();
  const isWhole = bytes === manifest.file.bytes && digest.hex() === manifest.file.sha256;
  const isSame =
    rows === manifest.rows &&
    lines.sha256 === manifest.lines.sha256 &&
    Object.keys(tenants).length === Object.keys(manifest.tenants).length &&
    Object.entries(tenants).every(([tenant_id, count]) => manifest.tenants[tenant_id] === count);
  if (!isWhole || !isSame) throw altered(path);
  return manifest;
};

const altered = (path: string, cause?: unknown): StartError =>
  new StartError(`${path} was cut off or changed: it is not what its manifest says.`, { cause });

/** The lines of an archive, after it was verified, of one tenant or of all. @throws StartError. */
export const readLogArchive = async function* (path: string, tenant_id: string | undefined): AsyncGenerator<Buffer> {
  await verifyLogArchive(path);
  for await (const line of readLines(readPacked(path, () => undefined)))
    if (tenant_id === undefined || tenantOf(line) === tenant_id) yield line;
};
