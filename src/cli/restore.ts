// The command that restores a backup, into an empty database or, to verify it, into a scratch database.
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { PoolConfig } from 'pg';
import { LEAST_ID, newTimeOrderedId, newUuid } from '../platform/crypto/ids.ts';
import { openToken } from '../modules/tokens/tokens.ts';
import type { CommandIo } from './command.ts';
import { createContext } from '../modules.ts';
import type { Config } from '../platform/config/config.ts';
import type { Manifest } from '../platform/db/backup/dump.ts';
import {
  checkEmpty,
  countRows,
  listTenantIds,
  loadDump,
  type LogDeletions,
  replayInVault,
  sampleTokens,
  withScratchDatabase,
} from '../platform/db/backup/load.ts';
import { codeOf, inSession } from '../platform/db/backup/session.ts';
import { createAccounts } from '../platform/base/accounts.ts';
import { createLogMacs } from '../platform/db/log-macs.ts';
import { logRow, operator } from '../platform/db/audit-record.ts';
import { insertLogs } from '../platform/db/audit-rows.ts';
import { createMetrics } from '../platform/metrics/metrics.ts';
import { createAgeDecryption } from '../platform/crypto/age-file.ts';
import type { RootKeys } from '../platform/crypto/key-provider.ts';
import { randomBytesFromKernel } from '../platform/crypto/random.ts';
import { createKeyRows } from '../platform/keys/rows.ts';
import { environmentOf, openPepper, openRootKey, openVault } from '../platform/keys/vault-keys.ts';
import { type Dump, openDump } from '../platform/db/backup/read-dump.ts';
import type { Replayed } from '../platform/db/backup/replay.ts';
import { EARLIER_BUILD, listMigrations, migrate, MigrationError } from '../platform/maintenance/migrate.ts';
import type { Query } from '../platform/db/statements.ts';
import { StartError } from '../platform/base/errors.ts';
import { createLog } from '../platform/base/log.ts';
import { closeAll, migrationsDir, noVault, openDatabase, type Start } from '../platform/services/open-database.ts';
import { createProgress, isSealedHead } from './backup.ts';
import { PROGRAM } from '../platform/base/program.ts';

// Checks a restored scratch database: its counts, and whether the root key opens tokens of every tenant.

/** The oldest and the newest tokens that are opened of each tenant. */
const SAMPLE_OF_EACH_END = 25;
const TENANTS_AT_A_TIME = 1_000;

/** Prints the report. @param isChanged whether an erasure list or migrations may have changed the counts since they were checked. @returns whether all counts are right and every sampled token opens. */
const verifyRestored = async (
  io: CommandIo,
  config: Config,
  manifest: Manifest,
  isChanged: boolean,
): Promise<boolean> => {
  const ctx = await createContext(config, 'command', io.overrides);
  try {
    return await inSession({ connectionString: config.databaseUrl }, async (session) => {
      const wrong: string[] = [];
      let rows = 0;
      for (const { name, rows: promised } of manifest.tables) {
        const count = await countRows(session, name);
        rows += count;
        if (count !== promised && !isChanged) wrong.push(`${name} has ${count} rows in place of ${promised}`);
      }
      let tenants = 0;
      let sampled = 0;
      for (let ids: string[], after = LEAST_ID; ; after = ids.at(-1) as string) {
        ids = await listTenantIds(session, after, TENANTS_AT_A_TIME);
        if (ids.length === 0) break;
        tenants += ids.length;
        for (const tenant_id of ids) {
          let failed = 0;
          const tokens = await sampleTokens(session, tenant_id, SAMPLE_OF_EACH_END);
          const keys = await ctx.keyring.tenantKeys(tenant_id).catch(() => undefined);
          if (!keys) wrong.push(`tenant ${tenant_id}: its keys do not open`);
          for (const token of keys ? tokens : [])
            try {
              openToken(ctx, tenant_id, token, keys as NonNullable<typeof keys>);
            } catch {
              failed += 1;
            }
          sampled += tokens.length;
          if (failed > 0) wrong.push(`tenant ${tenant_id}: ${failed} of ${tokens.length} sampled tokens do not open`);
        }
      }
      const counted = isChanged ? 'after the erasure list and the migrations' : 'as the manifest says';
      const summary =
        wrong.length === 0
          ? `${rows} rows in ${manifest.tables.length} tables, ${counted}. ${sampled} sampled tokens of ${tenants} tenants open.`
          : wrong.join('\n');
      io.print(summary);
      return wrong.length === 0;
    });
  } finally {
    await ctx.close();
  }
};

export type RestoreOptions = { file: string; identity: string; erasures: string | undefined; isVerify: boolean };

const openFile = async (path: string): Promise<Readable> => {
  const file = await open(path).catch((error: NodeJS.ErrnoException) => {
    throw new StartError(`${path} cannot be read (${error.code}).`);
  });
  return createReadStream(path, { fd: file });
};

/** @throws StartError where this release, environment or root key cannot restore it. */
const checkDump = async (config: Config, provider: RootKeys, { manifest, head, seal }: Dump, file: string) => {
  const root_key_ids = provider.list().map(({ root_key_id }) => root_key_id);
  if (!root_key_ids.includes(manifest.root_key_id))
    throw new StartError(
      `${file} was made with another root key, and this one would open none of its values. Nothing was restored.\nroot key of the file   ${manifest.root_key_id}\nroot key at hand       ${root_key_ids.join(', ')}\nSet MASTER_KEY to the root key of the vault that was backed up.`,
    );
  if (manifest.environment !== environmentOf(config))
    throw new StartError(
      `${file} is of a ${manifest.environment === 'live' ? 'production' : 'development'} vault, and this configuration is the other kind. Set NODE_ENV as it was.`,
    );
  if (!(await isSealedHead(provider, manifest, head, seal)))
    throw new StartError(`The manifest of ${file} was not made with the root key that it names. Nothing was restored.`);
  const known = await listMigrations(migrationsDir);
  const [first] = known;
  if (first !== undefined && !manifest.migrations.includes(first))
    throw new StartError(`The vault in ${file} ${EARLIER_BUILD}.`);
  const unknown = manifest.migrations.filter((name) => !known.includes(name));
  if (unknown.length > 0)
    throw new StartError(
      `${file} was written by a newer version of Strongroom (${manifest.product}): this one lacks ${unknown.join(', ')}. Restore it with that version.`,
    );
};

/** Makes the tables as they were, loads the rows, and migrates both. */
const restoreInto = async (
  io: CommandIo,
  poolConfig: PoolConfig,
  dump: Dump,
  erasures: Dump | undefined,
  log?: LogDeletions,
): Promise<{ replayed: Replayed | undefined; isMigrated: boolean }> => {
  const { manifest } = dump;
  await inSession(poolConfig, (session) => checkEmpty(session, manifest));
  await migrate(poolConfig, migrationsDir, manifest.migrations);
  const progress = createProgress(io.say);
  // Tables of an earlier version may lack columns of the log that this one writes.
  const isCurrent = manifest.migrations.length === (await listMigrations(migrationsDir)).length;
  const replayed = await inSession(poolConfig, (session) =>
    loadDump(session, dump, erasures, progress, isCurrent ? log : undefined),
  );
  const { applied } = await migrate(poolConfig, migrationsDir);
  if (replayed && log && !isCurrent) await inSession(poolConfig, (session) => log(session, replayed));
  return { replayed, isMigrated: applied.length > 0 };
};

const replayedText = (erasures: Dump, { listed, deleted }: Replayed): string =>
  `Replayed the erasure list of ${erasures.manifest.made_at} (${listed} entries). Deleted again: ${Object.entries(
    deleted,
  )
    .map(([kind, count]) => `${count} ${kind}`)
    .join(', ')}.`;

const replayText = (manifest: Manifest, erasures: Dump | undefined, replayed: Replayed | undefined): string => {
  if (!erasures || !replayed)
    return `No erasure list was given: what was deleted after ${manifest.made_at} is there again.`;
  const isOlder = erasures.manifest.made_at < manifest.made_at;
  return `${replayedText(erasures, replayed)}${isOlder ? ' The list is older than the backup.' : ''}`;
};

const INSTANCE = 'SELECT environment, wrapped_pepper FROM instance WHERE id = 1';

const clock = {
  now: () => new Date(),
  newLogId: (at: Date) => newTimeOrderedId(at.getTime(), randomBytesFromKernel),
};

/**
 * Writes to the log of tenants that an erasure list has deleted them again, in the transaction that deletes them. It reads the
 * pepper there, too: a restored vault is not visible elsewhere yet.
 */
const logDeletions =
  (config: Config, provider: RootKeys): LogDeletions =>
  async (session, { tenants }) => {
    if (tenants.length === 0) return;
    const query: Query = async (_name, text, values) => (await session.query(text, values)).rows;
    const [instance] = (await query(undefined, INSTANCE, [])) as { environment: string; wrapped_pepper: Buffer }[];
    if (!instance) throw noVault(config);
    const macs = createLogMacs();
    macs.open(await openPepper(provider, instance, environmentOf(config)));
    for (const id of tenants) {
      const row = logRow(clock, operator, { operation: 'delete', entity_type: 'tenant', entity_ids: [id] });
      await insertLogs(query, id, [macs.sign(id, row)]);
    }
  };

/** Restores or verifies a backup. @throws StartError; the database has no row of it then. */
export const restore = async (io: CommandIo, config: Config, options: RestoreOptions): Promise<void> => {
  const { file, isVerify } = options;
  const decrypt = createAgeDecryption(options.identity);
  await answering(async (start) => {
    const provider = await openRootKey(config);
    const sealed = await decrypt(await openFile(file), file).catch((error: Error) => {
      throw new StartError(`${error.message} Nothing was restored.`, { cause: error });
    });
    const plain = pipeline(sealed, createGunzip(), () => undefined);
    const dump = await openDump(plain, file, 'backup');
    start.closers.push(() => dump.close());
    await checkDump(config, provider, dump, file);
    const { erasures: list } = options;
    const erasures = list === undefined ? undefined : await openDump(await openFile(list), list, 'erasures');
    if (erasures) {
      start.closers.push(() => erasures.close());
      await checkDump(config, provider, erasures, list as string);
    }
    // A restore has the data directory alone, and makes its database; a verification works beside a running server.
    const services = { log: createLog(config.logLevel), accounts: createAccounts(), metrics: createMetrics() };
    const { poolConfig } = await openDatabase(config, isVerify ? 'command' : 'server', services, start);
    const { manifest } = dump;
    const of = `Backup of ${manifest.made_at}, by strongroom ${manifest.product}`;
    if (isVerify) {
      const isWell = await withScratchDatabase(poolConfig, newUuid().slice(0, 8), async (url) => {
        const { replayed, isMigrated } = await restoreInto(io, { connectionString: url }, dump, erasures);
        io.print(`${of}.\n${replayText(manifest, erasures, replayed)}`);
        const isChanged = isMigrated || (replayed?.listed ?? 0) > 0;
        return verifyRestored(io, { ...config, databaseUrl: url }, manifest, isChanged);
      });
      if (!isWell) throw new StartError('The backup is not usable as it is: see the report.');
      return;
    }
    const { replayed } = await restoreInto(io, poolConfig, dump, erasures, logDeletions(config, provider));
    io.print(
      `Restored: ${of}.\n${replayText(manifest, erasures, replayed)}\nSecurity codes are gone, and people must sign in again. Check it, then start the servers: ${PROGRAM} doctor`,
    );
  });
};

/** Deletes again what a list names, in a vault that came back by other means. @throws StartError; nothing is deleted then. */
export const replayErasureList = (io: CommandIo, config: Config, file: string): Promise<void> =>
  answering(async (start) => {
    const services = { log: createLog(config.logLevel), accounts: createAccounts(), metrics: createMetrics() };
    const { db, poolConfig } = await openDatabase(config, 'command', services, start);
    const instance = await createKeyRows(db).findInstance();
    if (!instance) throw noVault(config);
    const provider = await openVault(config, instance, environmentOf(config));
    const erasures = await openDump(await openFile(file), file, 'erasures');
    start.closers.push(() => erasures.close());
    await checkDump(config, provider, erasures, file);
    const log = logDeletions(config, provider);
    const replayed = await inSession(poolConfig, (session) => replayInVault(session, erasures, log));
    io.print(replayedText(erasures, replayed));
  });

/** Closes what the work has opened, and says in a sentence what the database refused. */
const answering = async (work: (start: Start) => Promise<void>): Promise<void> => {
  const start: Start = { closers: [], isLockLost: false };
  try {
    await work(start);
  } catch (error) {
    const code = codeOf(error);
    if (error instanceof StartError || error instanceof MigrationError || code === undefined) throw error;
    throw new StartError(
      `The database refused the restore or could not be reached (${code}). The role must own the tables. Try again: what is restored already is not restored twice.`,
      { cause: error },
    );
  } finally {
    await closeAll(start);
  }
};
