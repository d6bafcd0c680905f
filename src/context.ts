// Builds the platform services from a configuration, in order of their dependencies, and closes them in reverse.
import { join } from 'node:path';
import type { DestinationStream } from 'pino';
import { createAccounts, type Limits, limitsOfWorker } from './platform/base/accounts.ts';
import { type Announced, changeOf, createChanges } from './platform/base/cache.ts';
import type { Config } from './platform/config/config.ts';
import { loopDigest } from './platform/crypto/digest.ts';
import { newTimeOrderedId, newUuid } from './platform/crypto/ids.ts';
import { isSameRootKey, parseWrapped } from './platform/crypto/key-provider.ts';
import { createKeyring } from './platform/crypto/keyring.ts';
import { openLogSigning } from './platform/crypto/log-signing.ts';
import type { PasswordCost } from './platform/crypto/password.ts';
import { randomBytesFromKernel } from './platform/crypto/random.ts';
import { createKeyRows, ephemeralRowsOn } from './platform/keys/rows.ts';
import {
  environmentOf,
  newVaultProvider,
  newWrappedPepper,
  openPepper,
  openVault,
} from './platform/keys/vault-keys.ts';
import { listenForNotices } from './platform/db/notices.ts';
import type { Operation } from './platform/base/event-loop.ts';
import { createHeldOperations } from './platform/base/held-operations.ts';
import { createEgress, type Resolver } from './platform/egress/client.ts';
import { StartError } from './platform/base/errors.ts';
import { type Alarm, createLog } from './platform/base/log.ts';
import { createMetrics } from './platform/metrics/metrics.ts';
import { readPlatform } from './platform/services/platform-metrics.ts';
import { renderMetrics } from './platform/metrics/render.ts';
import { measuredEgress, tracedEgress } from './platform/egress/traced.ts';
import { createMailer, type MailTimeouts } from './platform/mail/mailer.ts';
import {
  bringUpToDate,
  closeAll,
  noVault,
  openDatabase,
  type Role,
  type Start,
} from './platform/services/open-database.ts';
import type { Platform } from './platform/services/platform.ts';
import { openSandbox, startSandbox, tracedSandbox } from './platform/services/open-sandbox.ts';
import type { EgressTimeouts } from './platform/base/times.ts';
import { createTestClock } from './platform/base/test-clock.ts';
import { openTracing } from './platform/tracing/open-tracing.ts';
import { PROGRAM } from './platform/base/program.ts';

export type Overrides = {
  now?: () => Date;
  logDestination?: DestinationStream;
  /** In each line of the log. */
  logFields?: Record<string, unknown>;
  /** Resolves a host to all its addresses. */
  resolve?: Resolver;
  /** Certificate authorities in place of the system's, in PEM. */
  ca?: string[];
  /** Shorter timeouts of destinations, for tests. */
  egressTimeouts?: Partial<EgressTimeouts>;
  /** Shorter timeouts of the mail server, for tests. */
  mailTimeouts?: Partial<MailTimeouts>;
  /** A cheaper hash of passwords, for tests: its cost is most of the time of those that sign people in. */
  passwordCost?: PasswordCost | undefined;
  /** No executor until code runs, for tests: each takes 0.4 s of CPU time. */
  sandboxStart?: 'with_first_run' | undefined;
  /** Smaller limits of tenants, for tests. */
  limits?: Limits;
  /** Another limit of CPU time of a request, for tests. */
  requestCpuMs?: number;
  /** In a worker: asks the supervisor for the metrics of all workers. */
  metricsText?: () => Promise<string>;
  /** Called when another server has taken over the data directory: this server must stop. */
  onDirectoryLost?: () => void;
};

/** Whether anything serves the metrics, of this process or of its supervisor. */
const isServed = ({ metrics: { port, token } }: Config): boolean => port !== undefined || token !== undefined;

/** Attempts to start, if the data directory is lost to a process that is just ending. */
const STARTS_MAX = 3;

/**
 * Builds the platform: database (embedded or external), migrations, keys, egress, mail, sandbox.
 * @throws StartError or MigrationError, each with the command that fixes it.
 */
export const createPlatform = async (config: Config, role: Role, overrides: Overrides = {}): Promise<Platform> => {
  for (let startsLeft = STARTS_MAX - 1; ; startsLeft -= 1) {
    const start: Start = { closers: [], isLockLost: false };
    try {
      const ctx = await build(config, role, overrides, start);
      if (!start.isLockLost) return ctx;
      throw new StartError(
        `The database in ${config.dataDir} ended while the server started, and with it the lock on the directory. Its log says why: tail -n 30 ${join(config.dataDir, 'postgres.log')}`,
      );
    } catch (error) {
      await closeAll(start).catch(() => undefined);
      if (!start.isLockLost || startsLeft === 0) throw error;
    }
  }
};

const build = async (config: Config, role: Role, overrides: Overrides, start: Start): Promise<Platform> => {
  const environment = environmentOf(config);
  let onAlarm = (_alarm: Alarm): void => undefined;
  const log = createLog(config.logLevel, overrides.logDestination, overrides.logFields, (alarm) => onAlarm(alarm));
  const testClock = config.testEndpoints ? createTestClock() : undefined;
  const now = overrides.now ?? testClock?.now ?? (() => new Date());
  const monotonicMs = () => performance.now();
  const randomBytes = randomBytesFromKernel;

  const limits = { ...limitsOfWorker(config.workers, config.bodyBytesMax), ...overrides.limits };
  const spent = (operation: Operation): void =>
    log.error(
      { alarm: 'request_spent', cpu_ms: Math.round(operation.usedMs), ...operation.name() },
      'a request used more CPU time than it may, and was ended',
    );
  const accounts = createAccounts(limits, { spent, requestCpuMs: overrides.requestCpuMs });
  const metrics = createMetrics();
  if (role === 'server' && isServed(config)) metrics.watchProcess();
  // Closed last: its spans are of what happened until then.
  const tracing = role === 'server' ? await openTracing(config, { log, metrics, monotonicMs }) : undefined;
  start.closers.push(async () => tracing?.close());
  const changes = createChanges();
  const onAnotherHistory = (): void => changes.announce('anything');
  const database = { ...overrides, log, accounts, metrics, tracing, onAnotherHistory };
  const { db, poolConfig, embedded } = await openDatabase(config, role, database, start);
  start.closers.push(async () => accounts.close());
  const keyRows = createKeyRows(db);
  // Before anything is written, so that a wrong root key changes nothing.
  const before = await keyRows.findInstance();
  if (!before && role === 'command') throw noVault(config);
  const existing = before && (await openVault(config, before, environment));
  start.closers.push(async () => existing?.close());
  const migrations = await bringUpToDate(config, poolConfig);
  // The key is written before the vault that needs it: a crash in between leaves an unused key, never a vault without one.
  const provider = existing ?? (await newVaultProvider(config));
  if (!existing) start.closers.push(async () => provider.close());
  const instance =
    before ??
    (await keyRows.addInstance({ environment, wrapped_pepper: await newWrappedPepper(provider, environment) }));
  const pepper = await openPepper(provider, instance, environment);
  if (!isSameRootKey(parseWrapped(instance.wrapped_pepper), provider.describe()))
    log.warn(`the vault is under an earlier root key: ${PROGRAM} keys rotate-root wraps it under the first one`);

  db.signedRows.open({ pepper, log });
  db.logMacs.open(pepper);
  const keyring = createKeyring({
    provider,
    store: keyRows.keyStore,
    environment,
    now,
    randomBytes,
    cvcTtlMs: config.cvcTtlMs,
  });
  start.closers.push(async () => keyring.close());
  readPlatform(metrics, { accounts, keyring });
  db.onConnect((on) =>
    keyring
      .restoreEphemeralKeys(ephemeralRowsOn(on))
      .catch((error: unknown) => log.warn({ error }, 'the keys of security codes could not be stored again')),
  );

  changes.on((change) => {
    if (change === 'anything') keyring.forgetTenants();
    else if (change.subject === 'tenant') keyring.forgetTenant(change.id);
  });
  await db.events.open({ log, changes });
  onAlarm = (alarm) => db.events.raise(alarm, now());
  if (role === 'server') {
    const announce = (change: Announced | undefined): void => change && changes.announce(change);
    const notices = listenForNotices(poolConfig, {
      changed: (notice) => announce(changeOf(notice)),
      missed: () => changes.announce('anything'),
      failed: (error) =>
        log.warn({ error }, 'the connection for notices was lost; changes are noticed within a second'),
    });
    start.closers.push(() => notices.close());
  }

  const plainEgress = createEgress(config.egress, {
    accounts,
    resolve: overrides.resolve,
    ca: overrides.ca,
    timeouts: overrides.egressTimeouts,
    log,
  });
  const egress = tracedEgress(measuredEgress(plainEgress, metrics), tracing);
  start.closers.push(() => egress.close());
  const mailer =
    config.mail && createMailer(config.mail, { ca: overrides.ca, timeouts: overrides.mailTimeouts, log, now });
  start.closers.push(async () => mailer?.close());
  const sandbox = tracedSandbox(openSandbox(config, log, accounts, metrics), tracing);
  start.closers.push(() => sandbox.close());
  // Most tests run no code: an executor takes 0.4 s of CPU time.
  const startsSandbox = overrides.sandboxStart !== 'with_first_run' && !config.testEndpoints;
  if (role === 'server' && startsSandbox) await startSandbox(sandbox);

  return {
    config,
    environment,
    log,
    now,
    testClock,
    monotonicMs,
    randomBytes,
    newUuid,
    newLogId: (at) => newTimeOrderedId(at.getTime(), randomBytes),
    db,
    accounts,
    heldOperations: createHeldOperations(now),
    changes,
    metrics,
    tracing,
    metricsText: overrides.metricsText ?? (async () => renderMetrics([await metrics.report()])),
    provider,
    keyring,
    pepper,
    logSigning: openLogSigning(config, pepper),
    loop_id: loopDigest(pepper),
    sandbox,
    egress,
    mailer,
    embedded,
    migrations,
    draining: { isOn: false },
    onClose: (close) => void start.closers.push(close),
    close: () => closeAll(start),
  };
};
