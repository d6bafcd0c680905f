// `strongroom logs archive` and `logs read`: moves old months of the audit log into files, and prints their rows.
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Client } from 'pg';
import { TreeTampered } from '../platform/audit/tree-state.ts';
import { signMark } from '../platform/db/archive-mark.ts';
import type { LogSigning } from '../platform/crypto/log-signing.ts';
import { firstIdAt, timeOfId } from '../platform/crypto/ids.ts';
import { codeOf, inSession } from '../platform/db/backup/session.ts';
import {
  dropPartition,
  isEmptyPartition,
  listLogPartitions,
  type LogPartition,
  mergeEmptyMonths,
  oldestKept,
  putBackDetached,
  readLogPartition,
} from '../platform/db/log-partitions.ts';
import { findTreePosition } from '../platform/db/log-stream.ts';
import { addArchivedMonth, dropArchivedLeaves, findArchivedMonths, isSignedMonth } from '../platform/db/log-trees.ts';
import type { Query } from '../platform/db/statements.ts';
import { StartError } from '../platform/base/errors.ts';
import { exists } from '../platform/base/files.ts';
import { proofOfPartition } from '../platform/audit/log-archive-proof.ts';
import {
  type ArchiveProof,
  archivePath,
  type LogManifest,
  markOf,
  readLogArchive,
  tallyOf,
  verifyLogArchive,
  writeLogArchive,
} from '../platform/audit/log-archive-file.ts';
import type { Platform } from '../platform/services/platform.ts';
import { mebibytes } from './backup-progress.ts';
import type { CommandIo } from './command.ts';
import { UsageError } from './usage-error.ts';
import { PROGRAM } from '../platform/base/program.ts';

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
  // Of a run that was stopped, or that kept the partition.
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
