// Starts a vault for a test: a server of its own with an embedded PostgreSQL, a clock that the test advances, a fake processor.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { cards, type Processor, type ReceivedRequest, startProcessor } from '../../../src/modules/testing/processor.ts';
import { findServer } from './find-server.ts';
import type { Asked, Told } from './messages.ts';

export { cards, type ReceivedRequest };

export type VaultOptions = {
  /** Port of the vault on 127.0.0.1. Default: a free one. */
  port?: number;
  /** Directory in which the vault gets one of its own, which goes with it. Default: that of the system for temporary files. */
  directory?: string;
  /** Directory that keeps prepared databases between starts. Default: `strongroom-testing` in the user's cache directory. */
  cacheDirectory?: string;
  /** Further variables of the vault, such as `{ CVC_TTL: '5m' }`: docs/operations/configuration.md lists them. */
  environment?: Record<string, string>;
  /** The directory of the package `strongroom`. Default: the one that the project of the test has. */
  server?: string;
};

export type Tenant = {
  tenantId: string;
  applicationId: string;
  /** An API key with all permissions. */
  key: string;
};

export type Vault = Tenant & {
  /** Such as `http://127.0.0.1:40117`. */
  url: string;
  /** Makes a further tenant, apart from all others. */
  newTenant(name?: string): Promise<Tenant>;
  clock: {
    /**
     * Takes the clock of the vault ahead. What is due by then is done before it resolves, such as the deletion of expired tokens.
     * @param time such as `90s`, `15m`, `1h` or `30d`.
     * @returns the time of the vault.
     */
    advance(time: string): Promise<Date>;
  };
  /** The fake processor, which the vault's proxy and code reach: `https://localhost:40123`. */
  processorUrl: string;
  /** What the fake processor received, the oldest first. Empty it with `requests.length = 0`. */
  requests: ReceivedRequest[];
  /** Stops the vault and removes all of it. May be called twice. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
};

/** Taken when this file is loaded: a test may put another one in its place. */
const { fetch } = globalThis;

const OPTIONS = ['port', 'directory', 'cacheDirectory', 'environment', 'server'];
const PORT_MAX = 65_535;

const checkOptions = ({ port = 0, ...others }: VaultOptions): void => {
  const unknown = Object.keys(others).find((name) => !OPTIONS.includes(name));
  if (unknown !== undefined) throw new TypeError(`startVault has no option ${unknown}. It has ${OPTIONS.join(', ')}.`);
  if (!Number.isInteger(port) || port < 0 || port > PORT_MAX)
    throw new TypeError(`startVault: port must be a whole number from 0 to ${PORT_MAX}; 0 takes a free one.`);
};

/** Undefined where the user's cache directory cannot be written: then each start makes its own database. */
const findCacheDirectory = (given: string | undefined): string | undefined => {
  if (given !== undefined) return resolve(given);
  const usual = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'strongroom-testing');
  try {
    mkdirSync(usual, { recursive: true, mode: 0o700 });
    return usual;
  } catch {
    return undefined;
  }
};

const environmentOf = ({ port = 0, cacheDirectory, environment = {} }: VaultOptions): Record<string, string> => {
  const cache = environment['DATABASE_URL'] === undefined ? findCacheDirectory(cacheDirectory) : undefined;
  return {
    PATH: process.env['PATH'] ?? '',
    HOME: homedir(),
    NODE_ENV: 'development',
    PORT: String(port),
    LOG_FORMAT: 'json',
    TEST_ENDPOINTS: 'on',
    ...(cache === undefined ? {} : { TEST_TEMPLATE_DIR: cache, NODE_COMPILE_CACHE: join(cache, 'compiled') }),
    ...environment,
  };
};

const startGuard = (asked: Asked): ChildProcess =>
  spawn(process.execPath, [fileURLToPath(new URL('./guard.js', import.meta.url)), JSON.stringify(asked)], {
    // In a session of its own: Ctrl-C and a killed group of processes end the test, and then this process cleans up.
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
    // NODE_OPTIONS of a test runner are not for it.
    env: { PATH: process.env['PATH'], HOME: homedir(), TMPDIR: tmpdir() },
    cwd: '/',
  });

/** @throws Error with the reason of the vault. */
const waitUntilReady = async (guard: ChildProcess): Promise<Extract<Told, { kind: 'ready' }>> => {
  const reader = createInterface({ input: guard.stdout as NodeJS.ReadableStream });
  const told = await new Promise<Told>((resolveTold, reject) => {
    reader.once('line', (line) => resolveTold(JSON.parse(line) as Told));
    reader.once('close', () => resolveTold({ kind: 'failed', reason: 'The process that starts the vault has ended.' }));
    guard.once('error', reject);
  });
  if (told.kind === 'ready') return told;
  if (guard.exitCode === null) await once(guard, 'exit');
  throw new Error(told.reason);
};

/** A test that does not stop its vault must end all the same. */
const letTestEnd = (guard: ChildProcess): void => {
  guard.unref();
  for (const stream of [guard.stdin, guard.stdout]) (stream as unknown as { unref(): void }).unref();
};

const createStop = (guard: ChildProcess, processor: Processor): (() => Promise<void>) => {
  let stopping: Promise<void> | undefined;
  const stopOnce = async (): Promise<void> => {
    // First: a request that waits for the processor would hold the vault up.
    await processor.stop();
    if (guard.exitCode !== null || guard.signalCode !== null) return;
    const ended = once(guard, 'exit');
    guard.ref();
    guard.stdin?.end();
    await ended;
  };
  return () => (stopping ??= stopOnce());
};

/**
 * Starts a vault on 127.0.0.1 and returns when it serves requests. It ends with `stop`, and at the latest with this process.
 * @throws Error that says what is wrong and where; nothing of the vault is left then.
 */
export const startVault = async (options: VaultOptions = {}): Promise<Vault> => {
  checkOptions(options);
  const guard = startGuard({
    server: findServer(options.server),
    directory: resolve(options.directory ?? tmpdir()),
    environment: environmentOf(options),
  });
  const { url, key, tenantId, applicationId, dataDir } = await waitUntilReady(guard);
  const processor = await startProcessor(dataDir);
  letTestEnd(guard);
  const stop = createStop(guard, processor);

  const post = async (path: string, body: unknown): Promise<Record<string, string>> => {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { 'svc-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`The vault answered POST ${path} with ${response.status}: ${text}`);
    return JSON.parse(text) as Record<string, string>;
  };

  return {
    url,
    key,
    tenantId,
    applicationId,
    newTenant: async (name) => {
      const made = await post('/test/tenants', { name });
      return {
        tenantId: made['tenant_id'] ?? '',
        applicationId: made['application_id'] ?? '',
        key: made['api_key'] ?? '',
      };
    },
    clock: { advance: async (advance) => new Date((await post('/test/clock', { advance }))['now'] ?? '') },
    processorUrl: processor.url,
    requests: processor.requests,
    stop,
    [Symbol.asyncDispose]: stop,
  };
};
