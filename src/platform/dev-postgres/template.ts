// Prepares a migrated cluster for tests once, and copies it into new data directories: a start then makes no cluster.
import { mkdtemp, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { StartError } from '../base/errors.ts';
import { exists, makeDirectory } from '../base/files.ts';
import type { DatabaseAddress } from './connection.ts';
import { startEmbeddedPostgres } from './dev-postgres.ts';
import { codeOf, directoryOf, type Log } from './directory.ts';
import { lastLine, run } from './programs.ts';

/** Templates of other versions that no start has used for so long are removed. */
const UNUSED_MS = 30 * 86_400_000;

type Template = {
  templatesDir: string;
  /** Name by what the template has: another release, with other migrations, has another. */
  name: string;
  dataDir: string;
  newPassword: () => string;
  migrate: (address: DatabaseAddress) => Promise<unknown>;
  log: Log;
};

/**
 * Gives a data directory without a cluster a copy of the template, which is made where it is missing. A data directory with a
 * cluster stays as it is. Several processes may call it at once. @throws StartError.
 */
export const copyTemplate = async (options: Template): Promise<void> => {
  const { templatesDir, name, dataDir } = options;
  const { pg } = directoryOf(dataDir);
  if (await exists(pg)) return;
  const template = join(templatesDir, name);
  try {
    await makeDirectory(templatesDir);
    if (!(await exists(template))) await makeTemplate(options, template);
    const now = new Date();
    await utimes(template, now, now);
    await makeDirectory(dataDir);
    await copyCluster(template, pg);
  } catch (error) {
    await rm(pg, { recursive: true, force: true });
    if (error instanceof StartError) throw error;
    throw new StartError(
      `TEST_TEMPLATE_DIR: the prepared database in ${templatesDir} cannot be made or copied (${codeOf(error)}). Name a directory that this user may write to, or remove it: the next start makes it again.`,
      { cause: error },
    );
  }
};

/** Copies by `cp`, which keeps owners and modes, and takes a tenth of the CPU time of Node's own copy of a thousand files. */
const copyCluster = async (from: string, to: string): Promise<void> => {
  const { code, output } = await run(['cp', '-a', '--reflink=auto', from, to]);
  if (code !== 0) throw Object.assign(new Error('the copy failed'), { code: lastLine(output) });
};

/** Made beside its place and renamed, so that a killed start leaves no half of it. */
const makeTemplate = async (options: Template, template: string): Promise<void> => {
  const { templatesDir, newPassword, migrate, log } = options;
  await removeUnused(templatesDir);
  const draft = await mkdtemp(join(templatesDir, `new-`));
  try {
    const postgres = await startEmbeddedPostgres({ dataDir: draft, newPassword, log, isDurable: false });
    try {
      await migrate(postgres.address);
    } finally {
      await postgres.stop();
    }
    await rename(directoryOf(draft).pg, template).catch((error: unknown) => {
      // Another process was first.
      if (!['ENOTEMPTY', 'EEXIST'].includes(codeOf(error))) throw error;
    });
    log('test_template_made', { template: basename(template) });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
};

/** Also drafts of starts that were killed. */
const removeUnused = async (templatesDir: string): Promise<void> => {
  for (const name of await readdir(templatesDir)) {
    const path = join(templatesDir, name);
    const usedMs = await stat(path).then(
      ({ mtimeMs }) => mtimeMs,
      () => Infinity,
    );
    if (/^(?:new-|pg-)/.test(name) && usedMs < Date.now() - UNUSED_MS) await rm(path, { recursive: true, force: true });
  }
};
