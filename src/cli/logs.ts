// `strongroom admin logs archive` and `logs read`: moves old months of the audit log into files, and prints their rows.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Client } from 'pg';
import {
  addArchivedMonth,
  type ArchiveMark,
  dropArchivedLeaves,
  findArchivedMonths,
  isSameMark,
  isSignedMark,
  isSignedMonth,
  signMark,
} from '../platform/db/log-trees.ts';
import {
  createLogVerifier,
  type Finding,
  type HeldCheckpoints,
  type ProofEvent,
  type VerifiedLog,
} from '../platform/audit/log-verifier.ts';
import { isDeletionOf } from '../platform/db/leaf.ts';
import type { LogPublicKey } from '../platform/crypto/signed-note.ts';
import { StartError } from '../platform/base/errors.ts';
import {
  archivePath,
  type ArchiveProof,
  isArchivePath,
  type LogManifest,
  markOf,
  proofOfPartition,
  readArchiveEvents,
  readLogArchive,
  readManifest,
  tallyOf,
  verifyLogArchive,
  writeLogArchive,
} from '../platform/audit/log-archive-file.ts';
import { TreeTampered } from '../platform/audit/tree-state.ts';
import type { LogSigning } from '../platform/crypto/log-signing.ts';
import { firstIdAt, timeOfId } from '../platform/crypto/ids.ts';
import { codeOf, inSession } from '../platform/db/backup/session.ts';
import {
  dropPartition,
  findTreePosition,
  isEmptyPartition,
  listLogPartitions,
  type LogPartition,
  mergeEmptyMonths,
  oldestKept,
  putBackDetached,
  readLogPartition,
} from '../platform/db/log-partitions.ts';
import type { Query } from '../platform/db/statements.ts';
import { exists } from '../platform/base/files.ts';
import type { Platform } from '../platform/services/platform.ts';
import { mebibytes } from './backup.ts';
import { type CommandIo, UsageError } from './command.ts';
import { PROGRAM } from '../platform/base/program.ts';

// Verifies archives of the audit log, and says which rows of a log they have.

export type Verdict = { finding: Finding | undefined; verified: readonly VerifiedLog[] };

/** @param note called with each row that has a leaf, and its tenant. */
export const notingRows = async function* (
  events: AsyncIterable<ProofEvent>,
  note: (row: { tenant_id: string; id: string; line: string }) => void,
): AsyncGenerator<ProofEvent> {
  let tenant_id = '';
  for await (const event of events) {
    if (event.kind === 'tree') ({ tenant_id } = event);
    if (event.kind === 'leaf' && event.line !== undefined) note({ tenant_id, id: event.id, line: event.line });
    yield event;
  }
};

export const verifyEvents = async (
  events: AsyncIterable<ProofEvent>,
  keys: readonly LogPublicKey[],
  held: HeldCheckpoints | undefined,
  isArchive: boolean,
): Promise<Verdict> => {
  const verifier = createLogVerifier(keys, held, isArchive);
  for await (const event of events) {
    verifier.take(event);
    if (verifier.hasFinding()) break;
  }
  return verifier.end();
};

/** A row is signed this long after its time at most. */
const SIGNED_MS = 5 * 60_000;

/** A tenant whose held checkpoints of a month grow has rows in its archive, up to the last of them. */
const compareWithHeld = (
  { from, to }: LogManifest,
  verified: readonly VerifiedLog[],
  held: HeldCheckpoints | undefined,
): Finding | undefined => {
  if (from === null || to === null) return undefined;
  for (const [tenant_id, checkpoints] of held ?? []) {
    const within = [...checkpoints.values()].filter(
      ({ at }) => at.getTime() >= Date.parse(from) + SIGNED_MS && at.getTime() <= Date.parse(to),
    );
    const sizes = within.map(({ size }) => size);
    const most = Math.max(...sizes);
    const part = verified.find((each) => each.tenant_id === tenant_id);
    if (Math.min(...sizes) < most && (part?.size ?? 0) < most)
      return {
        kind: 'cut_off',
        tenant_id,
        text: `Your checkpoints have ${most} rows of this tenant in the month of the archive, and the archive has ${part ? `the rows up to ${part.size - 1}` : 'none'}.`,
      };
  }
  return undefined;
};

/**
 * Verifies an archive by its proof and by its mark. One from before the log was signed has a mark alone, one of an earlier release a
 * proof alone.
 * @param isKnown whether a signed mark of elsewhere is that of the archive. @throws StartError.
 */
export const judgeArchive = async (
  path: string,
  keys: readonly LogPublicKey[],
  held?: HeldCheckpoints,
  isKnown: (mark: ArchiveMark) => boolean = () => false,
  note: Parameters<typeof notingRows>[1] = () => undefined,
): Promise<Verdict & { manifest: LogManifest }> => {
  const manifest = await readManifest(path);
  const mark = markOf(manifest);
  const isMarked =
    mark !== undefined && (manifest.mark === undefined ? isKnown(mark) : isSignedMark(mark, manifest.mark, keys));
  const hasProof = manifest.proof !== undefined && manifest.signed_roots.length > 0;
  // An empty month of an earlier release has neither: there is nothing to prove.
  const isProven = hasProof || (!isMarked && manifest.rows > 0);
  const { finding, verified } = isProven
    ? await verifyEvents(notingRows(readArchiveEvents(path), note), keys, held, true)
    : { finding: undefined, verified: [] };
  if (finding) return { finding, verified, manifest };
  if (manifest.mark !== undefined && !isMarked)
    return {
      manifest,
      verified,
      finding: {
        kind: 'archive',
        tenant_id: undefined,
        text: 'The key has not signed the bounds and the rows of the manifest.',
      },
    };
  if (isMarked || !isProven) await verifyLogArchive(path);
  return { manifest, verified, finding: compareWithHeld(manifest, verified, held) };
};

export type VerifiedArchives = {
  finding: Finding | undefined;
  has(mark: ArchiveMark): boolean;
  /** Whether the log of a tenant in them has its deletion. */
  hasDeletionOf(tenant_id: string): boolean;
  /** Whether a tenant has rows in an archive from before the log was signed. */
  hasUnprovenRowsOf(tenant_id: string): boolean;
  /** The first position of a range that no archive has. */
  firstMissing(tenant_id: string, range: { from: number; to: number }): number | undefined;
};

/**
 * Verifies all archives in a directory and below it. Undefined has none.
 * @param marks signed marks of the database. @throws StartError.
 */
export const verifyArchives = async (
  directory: string | undefined,
  marks: readonly ArchiveMark[],
  keys: readonly LogPublicKey[],
  held: HeldCheckpoints | undefined,
): Promise<VerifiedArchives> => {
  const found: ArchiveMark[] = [];
  const parts: VerifiedLog[] = [];
  const deleted = new Set<string>();
  const unproven = new Set<string>();
  let finding: Finding | undefined;
  const isKnown = (mark: ArchiveMark): boolean => marks.some((each) => isSameMark(each, mark));
  const names =
    directory === undefined
      ? []
      : await readdir(directory, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
          throw new StartError(`${directory} cannot be read (${error.code}).`);
        });
  for (const name of names.toSorted()) {
    if (!isArchivePath(name) || name.endsWith('.proof.jsonl.gz')) continue;
    const judged = await judgeArchive(join(directory ?? '', name), keys, held, isKnown, ({ tenant_id, line }) => {
      if (isDeletionOf(tenant_id, line)) deleted.add(tenant_id);
    });
    if (judged.finding) finding ??= { ...judged.finding, text: `${name}: ${judged.finding.text}` };
    const mark = markOf(judged.manifest);
    if (mark) found.push(mark);
    parts.push(...judged.verified);
    const { proof, tenants } = judged.manifest;
    if (proof === undefined) for (const tenant_id of Object.keys(tenants)) unproven.add(tenant_id);
  }
  return {
    finding,
    hasDeletionOf: (tenant_id) => deleted.has(tenant_id),
    hasUnprovenRowsOf: (tenant_id) => unproven.has(tenant_id),
    has: (mark) => found.some((each) => isSameMark(each, mark)),
    firstMissing: (tenant_id, { from, to }) => {
      const own = parts.filter((part) => part.tenant_id === tenant_id).toSorted((one, other) => one.from - other.from);
      let next = from;
      for (const part of own) if (part.from <= next && part.size > next) next = part.size;
      return next < to ? next : undefined;
    },
  };
};

export type ArchiveOptions = { directory: string; month: string | undefined; isKept: boolean; isJson: boolean };

const MONTH_FORM = /^\d{4}-(?:0[1-9]|1[0-2])$/;

/** The partitions to archive, oldest first. @throws StartError for a month that has no partition or has not ended. */
const chosen = async (
  session: Client,
  month: string | undefined,
  months: number,
  now: Date,
): Promise<LogPartition[]> => {
  const partitions = await listLogPartitions(session);
  if (month === undefined) {
    const oldest = oldestKept(now, months);
    return partitions.filter(({ to_id }) => to_id !== null && to_id <= oldest);
  }
  const found = partitions.find(({ name }) => name === `audit_log_${month.replace('-', '_')}`);
  const known = partitions.map(({ name }) => name).join(', ');
  if (!found?.to_id) throw new StartError(`The month ${month} has no partition of its own. Partitions: ${known}.`);
  if (found.to_id > firstIdAt(now.getTime())) throw new StartError(`The month ${month} has not ended.`);
  return [found];
};

/** Statements of the session, as rows files of trees take them. */
const queryOn =
  (session: Client): Query =>
  async (_name, text, values) =>
    (await session.query(text, values)).rows;

/**
 * The proof of a month; undefined where no server has signed the log yet, or for the partition above all months.
 * @throws StartError where rows of the month are not signed yet.
 */
const findProof = async (session: Client, partition: LogPartition, now: Date): Promise<ArchiveProof | undefined> => {
  const { name, to_id } = partition;
  const signed = await findTreePosition(queryOn(session));
  if (signed === undefined || to_id === null) return undefined;
  if (signed < to_id)
    throw new StartError(
      `Rows of ${name} are not signed yet, so nothing was dropped. A running server does it within minutes: run the command again then.`,
    );
  return proofOfPartition(queryOn(session), partition, to_id, now);
};

/** Writes and verifies the archive of a partition, unless it is written already. @throws StartError. */
const writeOnce = async (
  session: Client,
  path: string,
  partition: LogPartition,
  { key }: LogSigning,
  now: Date,
): Promise<LogManifest> => {
  const proof = await findProof(session, partition, now);
  if (!(await exists(path))) {
    try {
      await writeLogArchive(path, partition, readLogPartition(session, partition.name), proof, key, now);
    } catch (error) {
      if (!(error instanceof TreeTampered)) throw error;
      throw new StartError(
        `The leaf hashes of ${partition.name} cannot be read: ${error.message}. Nothing was dropped. What is wrong: ${PROGRAM} logs verify --database`,
      );
    }
    return verifyLogArchive(path);
  }
  // The archive is of a run that was stopped, or that kept the partition.
  const archived = await verifyLogArchive(path);
  const { lines } = await tallyOf(readLogPartition(session, partition.name));
  if (proof && !archived.proof)
    throw new StartError(
      `${path} was written before the log was signed, and has no proof. Nothing was dropped. Choose another directory.`,
    );
  if (lines.sha256 === archived.lines.sha256) return archived;
  throw new StartError(
    `${path} exists, and has other rows than ${partition.name}. Nothing was dropped. Choose another directory.`,
  );
};

const archiveOne = async (
  io: CommandIo,
  session: Client,
  partition: LogPartition,
  { directory, isKept, isJson }: ArchiveOptions,
  signing: LogSigning,
  now: Date,
): Promise<void> => {
  const { name } = partition;
  const path = archivePath(directory, partition);
  const manifest = await writeOnce(session, path, partition, signing, now);
  const { rows, file } = manifest;
  const mark = markOf(manifest);
  // Before rows are gone: a run that is killed in between leaves none that nothing excuses.
  if (!isKept && mark) await addArchivedMonth(queryOn(session), name, mark, signMark(signing.key, mark), now);
  const isDropped = !isKept && (await dropPartition(session, partition, rows));
  if (!isKept && !isDropped)
    throw new StartError(
      `Rows came into ${name} after ${path} was written. Nothing was dropped. Run the command again with another directory.`,
    );
  io.print(
    isJson
      ? JSON.stringify({
          partition: name,
          file: path,
          rows,
          bytes: file.bytes,
          sha256: file.sha256,
          dropped: isDropped,
        })
      : `${path}  ${rows} rows, ${mebibytes(file.bytes)}${isDropped ? `; ${name} was dropped` : `; ${name} was kept`}`,
  );
};

/** Leaf hashes below the oldest row, where everything below it was archived. */
const dropLeaves = async (session: Client, { publicKeys }: LogSigning): Promise<void> => {
  const query = queryOn(session);
  const archivedTo = (await findArchivedMonths(query)).findLast((month) => isSignedMonth(month, publicKeys))?.to_id;
  let below: string | undefined;
  for (const { name, to_id } of await listLogPartitions(session)) {
    if (archivedTo === undefined || to_id === null || to_id > archivedTo || !(await isEmptyPartition(session, name)))
      break;
    below = to_id;
  }
  if (below !== undefined) await dropArchivedLeaves(query, below, timeOfId(below));
};

const NOT_OWNER =
  'This role may not drop partitions of the audit log. Run the command as the role that migrates (docs/operations/database-roles.md).';

/** @throws UsageError, StartError. Nothing is dropped that is not in a verified archive. */
export const archiveLogs = async (
  io: CommandIo,
  { config, db, logSigning, now: clock }: Pick<Platform, 'config' | 'db' | 'logSigning' | 'now'>,
  options: ArchiveOptions,
): Promise<void> => {
  const { month, isKept, directory } = options;
  if (month !== undefined && !MONTH_FORM.test(month)) throw new UsageError('The option --month must be like 2026-08.');
  if (!(await exists(directory)))
    throw new StartError(`The directory ${directory} does not exist. Make it, on a disk that is backed up.`);
  const now = clock();
  try {
    const role = await db.findServerRole();
    if (!role.owns_log) throw new StartError(NOT_OWNER);
    await inSession(db.pool.options, async (session) => {
      for (const name of await putBackDetached(session))
        io.say(`${name} was left by a run that was stopped. It is back in the log.`);
      let archived = 0;
      for (const partition of await chosen(session, month, config.logRetentionMonths, now)) {
        // The first one is empty once its rows are archived: it waits for late rows.
        if (partition.from_id === null && (await isEmptyPartition(session, partition.name))) continue;
        await archiveOne(io, session, partition, options, logSigning, now);
        archived += 1;
      }
      if (!isKept) {
        await mergeEmptyMonths(session, oldestKept(now, config.logRetentionMonths));
        await dropLeaves(session, logSigning);
      }
      if (archived === 0 && !options.isJson)
        io.print(`No month is older than ${config.logRetentionMonths} months (LOG_RETENTION_MONTHS).`);
    });
  } catch (error) {
    const code = codeOf(error);
    if (error instanceof StartError || code === undefined) throw error;
    throw new StartError(`The database refused a statement (${code}). Nothing was dropped that is not in an archive.`, {
      cause: error,
    });
  }
};

/** Prints the rows of an archive once it is verified. @throws StartError. */
export const readArchive = async (io: CommandIo, path: string, tenant_id: string | undefined): Promise<void> => {
  const lines = Readable.from(readLogArchive(path, tenant_id), { objectMode: false });
  await pipeline(lines, io.stdout, { end: false }).catch((error: unknown) => {
    // The reader, such as `head`, has enough.
    if (codeOf(error) !== 'EPIPE') throw error;
  });
};
