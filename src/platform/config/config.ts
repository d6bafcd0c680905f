// Reads and validates the environment variables: the only file that does so. Reports all problems at once, with their fixes.
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import type { ApplicationLimits } from '../base/application-limits.ts';
import { codeVariables, defaultMemoryTotalMb } from './code.ts';
import { DATABASE_POOL_MIN, databaseVariables } from './database.ts';
import { isPrivateOnTheWay } from './forms.ts';
import { DAY_MS } from '../base/times.ts';
import { keyVariables } from './keys.ts';
import { limitVariables } from './limits.ts';
import { logVariables } from './logs.ts';
import { type MailConfig, mailOf, mailVariables } from './mail.ts';
import { metricVariables } from './metrics.ts';
import { peopleVariables } from './people.ts';
import { countWorkers, DRAIN_SECONDS_PRODUCTION, findMemoryMb, hasRoomForHeavy, serverVariables } from './server.ts';
import { findTestingProblems, testingVariables } from './testing.ts';
import { type TracingConfig, tracingOf, tracingVariables } from './tracing.ts';
import type { WantedSet } from '../crypto/share-sets.ts';
import { type KeyProvidersConfig, keyProvidersOf } from '../crypto/provider-config.ts';
import type { LogPublicKey, LogSigningKey } from '../crypto/signed-note.ts';
import { type DevelopmentEgress, echoFileIn } from './dev-destination.ts';
import { unprocessable } from '../base/errors.ts';
import { canonicalHost } from '../base/host-names.ts';
import { memoryTotalMbLeast } from '../sandbox/protocol/sandbox.ts';
import { editDistance } from '../base/unknown-names.ts';

/** Every variable the server knows, with the sentence that docs/operations/configuration.md prints about it. */
export const environmentSchema = z.object({
  ...serverVariables,
  ...databaseVariables,
  ...keyVariables,
  ...limitVariables,
  ...codeVariables,
  ...peopleVariables,
  ...mailVariables,
  ...logVariables,
  ...metricVariables,
  ...tracingVariables,
  ...testingVariables,
});

/** Variables that may come from a file instead, named with `_FILE`: secrets that a deployment mounts. */
export const fileVariables = [
  'MASTER_KEY',
  'MASTER_KEY_PREVIOUS',
  'DATABASE_URL',
  'SMTP_URL',
  'LOG_SIGNING_KEY',
  'METRICS_TOKEN',
  'VAULT_SECRET_ID',
  'PKCS11_PIN',
  'OTEL_EXPORTER_OTLP_HEADERS',
] as const;

/** Variables of earlier versions: a start with one of them fails, since its limit would no longer hold. */
const removedVariables: Record<string, string> = {
  SANDBOX_EXECUTORS_MAX: 'is gone: executors are limited by their memory. Set SANDBOX_MEMORY_TOTAL_MB, 300 for each.',
};

/** Prefixes that only variables of Strongroom have. */
const OWN_PREFIXES = /^(?:SANDBOX|EGRESS)_/;
/** Shorter names are too similar to those of other programs, such as PGHOST to HOST. */
const SLIP_LENGTH_MIN = 6;
/** From this length on, two differences still count as a typing error. */
const LONG_NAME_LENGTH = 9;

/**
 * Finds variables that look like misspelled ones of Strongroom. They have no effect and do not stop the start.
 * @returns a sentence for each, without its value.
 */
export const findMisspelledVariables = (environment: Record<string, string | undefined> = process.env): string[] => {
  const known = [...Object.keys(environmentSchema.shape), ...fileVariables.map((name) => `${name}_FILE`)];
  return Object.keys(environment).flatMap((name) => {
    if (known.includes(name) || name.length < SLIP_LENGTH_MIN) return [];
    const differencesMax = name.length < LONG_NAME_LENGTH ? 1 : 2;
    const meant = known.find((each) => editDistance(name, each) <= differencesMax);
    if (meant === undefined && !OWN_PREFIXES.test(name)) return [];
    return [
      `${name} is no variable of Strongroom and has no effect${meant === undefined ? '' : `: did you mean ${meant}?`}`,
    ];
  });
};

export type Config = {
  mode: 'development' | 'production';
  host: string;
  port: number;
  dataDir: string;
  databaseUrl: string | undefined;
  /** Number of serving processes. */
  workers: number;
  /** Whether a heavy worker is started when a tenant needs it. */
  hasHeavyWorker: boolean;
  /** In the heavy worker: where it listens. */
  heavySocket?: string;
  databasePoolMax: number;
  migrateOnStart: boolean;
  drainMs: number;
  /** Root key of the provider `local`. Undefined in development: the context generates one in `dataDir`. */
  rootKey: Buffer | undefined;
  /** They unwrap, and wrap until a rotation begins. */
  previousRootKeys: Buffer[];
  /** Sets of shares of root keys, the one that wraps first. Empty: the root key is not split. */
  keyShares: WantedSet[];
  unsealSocket: string;
  keyProviders: KeyProvidersConfig;
  cvcTtlMs: number;
  erasuresKeptMs: number;
  runsKeptMs: number;
  usageKeptMs: number;
  /** Prefixes of the headers of the API beside SVC, in capital letters. */
  headerPrefixes: string[];
  bodyBytesMax: number;
  proxyBodyBytesMax: number;
  writeBatches: number;
  /** Whether failed authentications and sign-ins are limited. */
  rateLimit: boolean;
  /** For applications without limits of their own. */
  limitDefaults: ApplicationLimits;
  trustedProxies: string[] | undefined;
  bootstrapApiKeyFile: string | undefined;
  /** Undefined in production. */
  devKey: string | undefined;
  /** Whether the endpoints for tests are served. Never in production. */
  testEndpoints: boolean;
  /** Directory that keeps prepared databases for tests. */
  testTemplateDir: string | undefined;
  sandbox: {
    wallKind: 'auto' | 'bwrap' | 'landlock' | 'none';
    /** Whether code may run without isolation by the system. */
    allowWeak: boolean;
    isolation: 'context' | 'isolate';
    /** Memory of all executors together, on this machine. */
    memoryTotalMb: number;
    wallMs: number;
    cpuMs: number;
    memoryMb: number;
  };
  egress: {
    allowedHosts: string[] | undefined;
    privateHosts: { host: string; port: number }[];
    ports: number[] | undefined;
    ownHosts: string[];
    headerPrefixes: string[];
    /** Undefined in production. */
    development: DevelopmentEgress | undefined;
  };
  /** An origin without a slash at its end. Undefined in development: the address that the server listens on. */
  publicUrl: string | undefined;
  /** The host that serves only the console and the pages of members, as a URL's hostname. Undefined: every host serves all. */
  consoleHost: string | undefined;
  /** The origin that serves only frames and pages that collect data. Undefined: every host except the console's does. */
  fieldsOrigin: string | undefined;
  /** Whether members can sign in. */
  console: boolean;
  /** Whether the start page, the reference and the OpenAPI document are served. */
  docs: boolean;
  sessionIdleMs: number;
  signInLockoutMs: number;
  /** Default for tenants whose settings do not say it. */
  requireSecondFactor: boolean;
  /** Undefined: no mail is sent. */
  mail: MailConfig | undefined;
  /** Metrics are served on `port`, or on that of the API where there is a token alone, or not at all. */
  metrics: { host: string; port: number | undefined; token: string | undefined };
  /** Whole months of the audit log in the database. */
  logRetentionMonths: number;
  /** The file that the audit log is streamed to. */
  logStream: string | undefined;
  logSigningKey: LogSigningKey | undefined;
  logPreviousKeys: LogPublicKey[];
  logCheckpointFile: string | undefined;
  logCheckpointUrl: string | undefined;
  /** Undefined: requests are not traced. */
  tracing: TracingConfig | undefined;
  logLevel: string;
  logFormat: 'auto' | 'json';
  /** All variables that are set, with file contents resolved. Workers build their configuration from them. */
  variables: Record<string, string>;
};

/** The environment is not valid. The message lists each problem with its fix on a line, without values. */
export class ConfigError extends Error {
  readonly problems: string[];
  constructor(problems: string[]) {
    super(`The configuration is not usable:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

const isLoopback = (host: string) => host === 'localhost' || host === '::1' || host.startsWith('127.');

const hostOfUrl = (url: string): string => canonicalHost(new URL(url).hostname);

/** Users type cards there: it needs TLS, and no other part of the vault may be on the same host. */
const fieldsOriginProblems = (
  { FIELDS_ORIGIN, PUBLIC_URL }: z.infer<typeof environmentSchema>,
  consoleHost: string | undefined,
): string[] => {
  if (FIELDS_ORIGIN === undefined) return [];
  const problems: string[] = [];
  if (!isPrivateOnTheWay(FIELDS_ORIGIN))
    problems.push('FIELDS_ORIGIN: must begin with https:// in production, since people type cards there.');
  if (hostOfUrl(FIELDS_ORIGIN) === consoleHost)
    problems.push('FIELDS_ORIGIN: must not have the host of CONSOLE_HOST: no page of the console is served there.');
  if (PUBLIC_URL !== undefined && hostOfUrl(FIELDS_ORIGIN) === hostOfUrl(PUBLIC_URL))
    problems.push('FIELDS_ORIGIN: must not have the host of PUBLIC_URL: the API and the proxy are not served there.');
  return problems;
};

/** Variables that packages and libraries read, such as PGSSLMODE: all but Strongroom's own. */
const foreignOf = (variables: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(variables).filter(([name]) => !Object.hasOwn(environmentSchema.shape, name)));

/**
 * Parses an environment into a Config.
 * @param environment variables by name, such as `process.env`; empty strings count as not set.
 * @throws ConfigError with all problems at once.
 */
export const loadConfig = (environment: Record<string, string | undefined> = process.env): Config => {
  const problems: string[] = [];
  const variables: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) if (value) variables[name] = value;
  for (const name of fileVariables) {
    const path = variables[`${name}_FILE`];
    if (!path) continue;
    try {
      variables[name] = readFileSync(path, 'utf8').trim();
      delete variables[`${name}_FILE`];
    } catch {
      problems.push(`${name}_FILE: the file ${path} cannot be read. Mount it, or set ${name}.`);
    }
  }
  for (const [name, sentence] of Object.entries(removedVariables))
    if (Object.hasOwn(variables, name)) problems.push(`${name}: ${sentence}`);
  const parsed = environmentSchema.safeParse(variables);
  if (!parsed.success) {
    for (const issue of parsed.error.issues) problems.push(`${issue.path.join('.')}: ${issue.message}`);
    throw new ConfigError(problems);
  }
  const values = parsed.data;
  const mode = values.NODE_ENV === 'production' ? 'production' : 'development';
  const keyProviders = keyProvidersOf(values, foreignOf(variables), problems);
  const keyShares = values.MASTER_KEY_SHARES;
  if (keyShares && (values.MASTER_KEY ?? values.MASTER_KEY_PREVIOUS))
    problems.push(
      'MASTER_KEY_SHARES: must not be beside MASTER_KEY or MASTER_KEY_PREVIOUS: operators give the key as shares.',
    );
  if (keyShares && !keyProviders.names.includes('local'))
    problems.push('MASTER_KEY_SHARES: needs the key provider local (MASTER_KEY_PROVIDER).');
  if (mode === 'production' && keyProviders.names.includes('local') && !values.MASTER_KEY && !keyShares)
    problems.push(
      'MASTER_KEY: needed in production. Make one, store it in your secret manager first, then set it: export MASTER_KEY=$(head -c 32 /dev/urandom | base64)',
    );
  if (mode === 'production' && !values.DATABASE_URL)
    problems.push(
      'DATABASE_URL: needed in production. Set it to a PostgreSQL 15 or newer: export DATABASE_URL=postgresql://user:password@host:5432/strongroom',
    );
  if (mode === 'production' && values.PUBLIC_URL && !isPrivateOnTheWay(values.PUBLIC_URL))
    problems.push('PUBLIC_URL: must begin with https:// in production, since people sign in there.');
  if (mode === 'production' && values.SMTP_URL && !values.MAIL_FROM)
    problems.push('MAIL_FROM: needed with SMTP_URL. Set the sender: export MAIL_FROM="Strongroom <vault@example.com>"');
  if (mode === 'production' && values.SMTP_URL && !values.PUBLIC_URL)
    problems.push(
      'PUBLIC_URL: needed with SMTP_URL, for the links in mails: export PUBLIC_URL=https://vault.example.com',
    );
  if (mode === 'development' && !isLoopback(values.HOST) && !values.ALLOW_DEV_ON_NETWORK)
    problems.push(
      'HOST: a development server listens on loopback only. Set NODE_ENV=production, or ALLOW_DEV_ON_NETWORK=1 if the network is yours.',
    );
  if (mode === 'production' && values.STRONGROOM_DEV_KEY)
    problems.push('STRONGROOM_DEV_KEY: is for development only: others know such a key. Unset it.');
  if (values.STRONGROOM_DEV_KEY && values.BOOTSTRAP_API_KEY_FILE)
    problems.push('STRONGROOM_DEV_KEY: must not be beside BOOTSTRAP_API_KEY_FILE. Unset one of them.');
  const memoryLeastMb = memoryTotalMbLeast(values.SANDBOX_MEMORY_MB);
  if ((values.SANDBOX_MEMORY_TOTAL_MB ?? memoryLeastMb) < memoryLeastMb)
    problems.push(
      `SANDBOX_MEMORY_TOTAL_MB: must be at least ${memoryLeastMb}, for two executors. Raise it, or lower SANDBOX_MEMORY_MB.`,
    );
  const consoleHost = values.CONSOLE_HOST && canonicalHost(values.CONSOLE_HOST);
  if (consoleHost && values.PUBLIC_URL && consoleHost === canonicalHost(new URL(values.PUBLIC_URL).hostname))
    problems.push('CONSOLE_HOST: must not be the host of PUBLIC_URL: no other route is served there.');
  if (mode === 'production') problems.push(...fieldsOriginProblems(values, consoleHost));
  if (values.METRICS_PORT !== undefined && values.METRICS_PORT !== 0 && values.METRICS_PORT === values.PORT)
    problems.push(
      `METRICS_PORT: must not be PORT. Take another, such as METRICS_PORT=9464, or serve both on PORT with METRICS_TOKEN alone.`,
    );
  problems.push(...findTestingProblems(values, mode, typeof values.WORKERS === 'number' ? values.WORKERS : 1));
  if (problems.length > 0) throw new ConfigError(problems);
  const executorsMb = values.SANDBOX_MEMORY_TOTAL_MB ?? defaultMemoryTotalMb(values.SANDBOX_MEMORY_MB);
  const asked = values.TEST_ENDPOINTS ? 1 : (values.WORKERS ?? (mode === 'production' ? 'auto' : 1));
  const [cores, memoryMb] = [availableParallelism(), findMemoryMb()];
  const workers = asked === 'auto' ? countWorkers(cores, memoryMb, executorsMb) : asked;
  return {
    mode,
    host: values.HOST,
    port: values.PORT,
    dataDir: resolve(values.DATA_DIR),
    databaseUrl: values.DATABASE_URL,
    workers,
    // The clock of the endpoints for tests is that of one process.
    hasHeavyWorker:
      !values.TEST_ENDPOINTS &&
      (values.HEAVY_WORKER === 'on' ||
        (values.HEAVY_WORKER === 'auto' && hasRoomForHeavy(cores, memoryMb, executorsMb, workers))),
    databasePoolMax: values.DATABASE_POOL_MAX,
    migrateOnStart: values.MIGRATE_ON_START,
    drainMs: (values.DRAIN_SECONDS ?? (mode === 'production' ? DRAIN_SECONDS_PRODUCTION : 0)) * 1000,
    rootKey: values.MASTER_KEY,
    previousRootKeys: values.MASTER_KEY_PREVIOUS ?? [],
    keyShares: keyShares ?? [],
    unsealSocket: resolve(values.UNSEAL_SOCKET ?? join(values.DATA_DIR, 'unseal.sock')),
    keyProviders,
    cvcTtlMs: values.CVC_TTL,
    erasuresKeptMs: values.ERASURES_KEPT_DAYS * DAY_MS,
    runsKeptMs: values.RUN_RETENTION_DAYS * DAY_MS,
    usageKeptMs: values.USAGE_RETENTION_DAYS * DAY_MS,
    headerPrefixes: values.API_HEADER_PREFIXES,
    bodyBytesMax: values.BODY_BYTES_MAX,
    proxyBodyBytesMax: values.PROXY_BODY_MAX,
    writeBatches: values.WRITE_BATCHES,
    rateLimit: values.RATE_LIMIT === 'on',
    limitDefaults: {
      rate_limit: values.RATE_LIMIT_DEFAULT,
      daily_reveals: values.DAILY_REVEALS_DEFAULT,
      daily_uses: values.DAILY_USES_DEFAULT,
    },
    trustedProxies: values.TRUSTED_PROXIES,
    bootstrapApiKeyFile: values.BOOTSTRAP_API_KEY_FILE,
    devKey: values.STRONGROOM_DEV_KEY,
    testEndpoints: values.TEST_ENDPOINTS,
    testTemplateDir: values.TEST_TEMPLATE_DIR,
    sandbox: {
      wallKind: values.SANDBOX_JAIL,
      allowWeak: mode === 'development' || values.SANDBOX_ALLOW_WEAK === '1',
      isolation: values.SANDBOX_ISOLATION,
      memoryTotalMb: executorsMb,
      wallMs: values.SANDBOX_WALL_MS,
      cpuMs: values.SANDBOX_CPU_MS,
      memoryMb: values.SANDBOX_MEMORY_MB,
    },
    egress: {
      allowedHosts: values.PROXY_ALLOWED_HOSTS,
      privateHosts: values.EGRESS_PRIVATE_HOSTS ?? [],
      ports: values.PROXY_PORTS,
      headerPrefixes: values.API_HEADER_PREFIXES,
      ownHosts: [
        ...(values.PUBLIC_HOSTS ?? []),
        ...(values.PUBLIC_URL === undefined ? [] : [new URL(values.PUBLIC_URL).hostname]),
        ...(consoleHost === undefined ? [] : [consoleHost]),
        ...(values.FIELDS_ORIGIN === undefined ? [] : [new URL(values.FIELDS_ORIGIN).hostname]),
      ],
      development:
        mode === 'production'
          ? undefined
          : {
              // The loopback of a container has nothing but the container's own.
              echoFile:
                isLoopback(values.HOST) || values.STRONGROOM_COMMAND ? echoFileIn(resolve(values.DATA_DIR)) : undefined,
            },
    },
    publicUrl: values.PUBLIC_URL && new URL(values.PUBLIC_URL).origin,
    consoleHost,
    fieldsOrigin: values.FIELDS_ORIGIN && new URL(values.FIELDS_ORIGIN).origin,
    console: values.CONSOLE,
    docs: values.DOCS,
    sessionIdleMs: values.SESSION_IDLE,
    signInLockoutMs: values.SIGN_IN_LOCKOUT,
    requireSecondFactor: values.REQUIRE_SECOND_FACTOR ?? mode === 'production',
    mail: mailOf(values, mode),
    metrics: { host: values.METRICS_HOST, port: values.METRICS_PORT, token: values.METRICS_TOKEN },
    logRetentionMonths: values.LOG_RETENTION_MONTHS,
    logStream: values.LOG_STREAM,
    logSigningKey: values.LOG_SIGNING_KEY,
    logPreviousKeys: values.LOG_SIGNING_KEYS_PREVIOUS ?? [],
    logCheckpointFile: values.LOG_CHECKPOINT_FILE,
    logCheckpointUrl: values.LOG_CHECKPOINT_URL,
    tracing: tracingOf(values),
    logLevel: values.LOG_LEVEL,
    logFormat: values.LOG_FORMAT,
    variables,
  };
};

/** Variables that a process needs before it gets its configuration by message. None is a secret. */
const STARTING_VARIABLES =
  /^(?:PATH|HOME|USER|TZ|LANG|LC_\w+|TMPDIR|LD_LIBRARY_PATH|NODE_(?:COMPILE_CACHE|EXTRA_CA_CERTS|OPTIONS|USE_SYSTEM_CA)|SSL_CERT_\w+|OPENSSL_\w+|STRONGROOM_COMMAND)$/;

/** Variables withheld from workers, since /proc shows the environment of a process. */
export const withheldVariables = (): Record<string, undefined> =>
  Object.fromEntries(
    Object.keys(process.env)
      .filter((name) => !STARTING_VARIABLES.test(name))
      .map((name) => [name, undefined]),
  );

/** Sets variables that packages read. Strongroom's own variables are in the configuration only. */
export const adoptVariables = (variables: Record<string, string>): void => {
  Object.assign(process.env, foreignOf(variables));
};

/** A worker's share of a limit that is for the whole server. */
export const shareOf = ({ workers }: Pick<Config, 'workers'>, most: number, least = 1): number =>
  Math.max(least, Math.floor(most / workers));

/** A heavy worker has this share of the connections besides. Few: what it writes must leave the database to the others. */
const HEAVY_POOL_SHARE = 0.25;

/** The configuration of one worker: limits for the whole machine or database are divided among the workers. */
export const configOfWorker = (config: Config): Config => {
  const { workers, hasHeavyWorker, heavySocket, databasePoolMax, sandbox } = config;
  const executorsMb = shareOf(
    { workers: workers + Number(hasHeavyWorker) },
    sandbox.memoryTotalMb,
    memoryTotalMbLeast(sandbox.memoryMb),
  );
  const connections =
    heavySocket === undefined ? shareOf(config, databasePoolMax) : Math.floor(databasePoolMax * HEAVY_POOL_SHARE);
  return {
    ...config,
    databasePoolMax: Math.max(DATABASE_POOL_MIN, connections),
    sandbox: { ...sandbox, memoryTotalMb: executorsMb },
  };
};

/** The origin of the console and of links in mails. @param base_url where this server listens. */
export const consoleUrlOf = (
  { publicUrl, consoleHost }: Pick<Config, 'publicUrl' | 'consoleHost'>,
  base_url: string,
): string => {
  const url = new URL(publicUrl ?? base_url);
  if (consoleHost !== undefined) url.hostname = consoleHost;
  return url.origin;
};

/**
 * Address to which pages of the console link for the API reference and the guides. Undefined where they are off, or on a host
 * that the server does not know.
 */
export const docsUrlOf = (
  { docs, publicUrl, consoleHost }: Pick<Config, 'docs' | 'publicUrl' | 'consoleHost'>,
  path: '/docs' | '/guides' = '/docs',
): string | undefined => {
  if (!docs) return undefined;
  if (consoleHost === undefined) return path;
  return publicUrl && `${publicUrl}${path}`;
};

/** The origins of pages, where the operator has named them. */
export const publicOriginsOf = (
  config: Pick<Config, 'publicUrl' | 'consoleHost' | 'fieldsOrigin'>,
): readonly string[] => {
  const { publicUrl, fieldsOrigin } = config;
  if (publicUrl === undefined) return [];
  return [publicUrl, consoleUrlOf(config, publicUrl), ...(fieldsOrigin === undefined ? [] : [fieldsOrigin])];
};

/**
 * Address of this server for links and redirects: PUBLIC_URL. In production it is never that of the request, whose Host the
 * client or a proxy chooses. @throws unprocessable in production without PUBLIC_URL.
 */
export const reachedUrl = (
  { mode, publicUrl }: Pick<Config, 'mode' | 'publicUrl'>,
  { protocol, host }: { protocol: string; host: string },
): string => {
  if (publicUrl !== undefined) return publicUrl;
  if (mode === 'production')
    throw unprocessable('This vault does not know its own address for links. Its operator must set PUBLIC_URL.');
  return `${protocol}://${host}`;
};

/** A start warning: other content on the same host could attack pages of the console. */
export const CONSOLE_SHARES_HOST =
  'the console and the proxy share one host. Give the console a host name of its own: set CONSOLE_HOST';

export const sharesConsoleHost = ({ mode, console, consoleHost }: Config): boolean =>
  mode === 'production' && console && consoleHost === undefined;

/** A start warning: other content on the host of the frames could read what users type. */
export const FIELDS_SHARE_HOST =
  'the frames that collect cards share a host with the console or the proxy. Give them an origin of their own: set FIELDS_ORIGIN';

export const sharesFieldsHost = ({ mode, fieldsOrigin, publicUrl, consoleHost }: Config): boolean => {
  if (fieldsOrigin === undefined) return mode === 'production';
  const host = hostOfUrl(fieldsOrigin);
  return host === consoleHost || (publicUrl !== undefined && host === hostOfUrl(publicUrl));
};
