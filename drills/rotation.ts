// Rotates the root key and a data key of a server under load, kills the first rotation, and prints times, failures and latencies.
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createTenant } from '../src/modules/people/bootstrap.ts';
import { createContext } from '../src/modules.ts';
import { loadConfig } from '../src/platform/config/config.ts';
import { KEY_ACTIVE_AFTER_MS } from '../src/platform/crypto/keyring.ts';
import { root, type ServerProcess, spawnServer, untilReady } from '../test/support/process.ts';

const [TENANTS = 1_000, ROWS = 100_000, REQUESTS_PER_SECOND = 200] = ['TENANTS', 'ROWS', 'RATE'].map((name) =>
  process.env[name] === undefined ? undefined : Number(process.env[name]),
);
const BATCH_TOKENS = 500;
/** The p99 that is compared is the median of windows: one stall of the disk can slow more than 1 % of all requests. */
const WINDOW_MS = 5_000;
/** Until each tenant was read several times: first reads load keys and code. */
const WARM_MS = 20_000;
/** The jobs of each minute run within it, as they do while the load goes on. */
const QUIET_MS = 80_000;

const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-rotation-'));
const keyOf = (byte: number): string => Buffer.alloc(32, byte).toString('base64');
const oldKey = { MASTER_KEY: keyOf(7) };
const bothKeys = { MASTER_KEY: keyOf(8), MASTER_KEY_PREVIOUS: keyOf(7) };
const newKey = { MASTER_KEY: keyOf(8) };

let server: ServerProcess | undefined;
const restart = async (environment: Record<string, string>): Promise<ServerProcess> => {
  if (server) {
    server.child.kill('SIGTERM');
    await server.exited;
  }
  server = await spawnServer(dataDir, { SANDBOX_JAIL: 'none', ...environment });
  await untilReady(server);
  return server;
};

type Target = { key: string; id: string };

/** @returns the status; 0 without a response. */
const read = async ({ base_url }: ServerProcess, { key, id }: Target): Promise<number> => {
  const response = await fetch(`${base_url}/tokens/${id}`, { headers: { 'svc-api-key': key } }).catch(() => undefined);
  await response?.arrayBuffer();
  return response?.status ?? 0;
};

const create = async ({ base_url }: ServerProcess, key: string, body: unknown): Promise<any> => {
  const response = await fetch(`${base_url}/tokenize`, {
    method: 'POST',
    headers: { 'svc-api-key': key, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`tokenize: ${response.status}`);
  return response.json();
};

/** @returns it to a tenth. */
const quantile = (values: readonly number[], share: number): number => {
  const sorted = values.toSorted((one, other) => one - other);
  return Math.round((sorted[Math.floor(sorted.length * share)] ?? 0) * 10) / 10;
};

/** Reads at a fixed rate, whatever the responses take, until it is stopped. */
const startLoad = (at: ServerProcess, targets: readonly Target[]) => {
  /** Milliseconds, by window. */
  const times: number[][] = [];
  let sent = 0;
  const failed: Record<string, number> = {};
  const running = new Set<Promise<void>>();
  const began = performance.now();
  const timer = setInterval(() => {
    for (const due = ((performance.now() - began) / 1000) * REQUESTS_PER_SECOND; sent < due; sent += 1) {
      const target = targets[sent % targets.length] as Target;
      const beganMs = performance.now();
      const one = read(at, target).then((status) => {
        if (status !== 200) failed[status] = (failed[status] ?? 0) + 1;
        (times[Math.floor((beganMs - began) / WINDOW_MS)] ??= []).push(performance.now() - beganMs);
        running.delete(one);
      });
      running.add(one);
    }
  }, 5);
  return async () => {
    clearInterval(timer);
    await Promise.all(running);
    const windows = times.map((each) => quantile(each, 0.99));
    const all = times.flat();
    return {
      requests: sent,
      failed,
      p50_ms: quantile(all, 0.5),
      p99_ms: quantile(all, 0.99),
      p99_of_windows_ms: quantile(windows, 0.5),
    };
  };
};

/** The figures of the load alone, on a server that has started just now. */
const measureQuiet = async (at: ServerProcess, targets: readonly Target[]) => {
  const stopWarm = startLoad(at, targets);
  await pause(WARM_MS);
  await stopWarm();
  const stop = startLoad(at, targets);
  await pause(QUIET_MS);
  return stop();
};

const commandLine = (args: string[]): [string, string[]] => [
  process.execPath,
  [join(root, 'src/cli/main.ts'), ...args],
];
const command = async (args: string[], environment: Record<string, string>): Promise<string> => {
  const env = { PATH: process.env['PATH'], DATA_DIR: dataDir, ...environment };
  return (await promisify(execFile)(...commandLine(args), { cwd: root, env })).stdout;
};
const print = (figures: object): void => console.log(JSON.stringify(figures));

try {
  let serving = await restart(oldKey);
  const ctx = await createContext(loadConfig({ DATA_DIR: dataDir, LOG_LEVEL: 'silent', ...oldKey }), 'command');
  const targets: Target[] = [];
  const tenantIds: string[] = [];
  for (let count = 0; count < TENANTS; count += 1) {
    const made = await createTenant(ctx, { name: `Tenant ${count}` });
    if (!made) throw new Error('no tenant was made');
    const key = made.api_key.reveal();
    tenantIds.push(made.tenant_id);
    targets.push({ key, id: (await create(serving, key, { type: 'token', data: 'kept' })).id });
  }
  await ctx.close();

  serving = await restart(bothKeys);
  print({ figure: 'before', ...(await measureQuiet(serving, targets)) });
  const stopLoad = startLoad(serving, targets);
  // Killed at its first line.
  const env = { PATH: process.env['PATH'], DATA_DIR: dataDir, ...bothKeys };
  const [program, args] = commandLine(['keys', 'rotate-root']);
  const killed = spawn(program, args, { cwd: root, env, stdio: ['ignore', 'ignore', 'pipe'] });
  killed.stderr.on('data', () => killed.kill('SIGKILL'));
  await new Promise((resolve) => killed.once('close', resolve));
  const beganMs = performance.now();
  const { rotated } = JSON.parse(await command(['keys', 'rotate-root', '--json'], bothKeys));
  const rotation_s = Math.round((performance.now() - beganMs) / 100) / 10;
  const load = await stopLoad();
  print({ figure: 'rotate-root', tenants: TENANTS, keys_after_the_kill: rotated, seconds: rotation_s, ...load });

  serving = await restart(newKey);
  let unread = 0;
  for (const target of targets) if ((await read(serving, target)) !== 200) unread += 1;
  print({ figure: 'new key alone', tenants: TENANTS, unread });

  const [{ key }] = targets as [Target];
  for (let count = 0; count < ROWS; count += BATCH_TOKENS)
    await create(
      serving,
      key,
      Array.from({ length: BATCH_TOKENS }, (_, index) => `value ${count + index}`),
    );
  await command(['keys', 'rotate-tenant', '--tenant', tenantIds[0] as string], newKey);
  const late = await createContext(loadConfig({ DATA_DIR: dataDir, LOG_LEVEL: 'silent', ...newKey }), 'command');
  // In place of the time until the new key seals. The server loads it at its start.
  const moved = await late.db.statements.change(
    `UPDATE tenant_keys SET created_at = created_at - $2 * interval '1 millisecond' WHERE tenant_id = $1`,
    [tenantIds[0], KEY_ACTIVE_AFTER_MS],
  );
  if (moved === 0) throw new Error('the new key was not found');
  await late.close();
  serving = await restart(newKey);
  const quiet = await measureQuiet(serving, targets);
  const quietUntilMs = performance.now();
  const stopBusy = startLoad(serving, targets);
  while (!serving.output().includes('rows are sealed under the new data key')) {
    if (serving.output().includes('re-sealing of a tenant was interrupted'))
      throw new Error('re-sealing was interrupted');
    await pause(200);
  }
  const busy = await stopBusy();
  print({
    figure: 're-seal',
    rows: ROWS,
    seconds_with_the_wait_for_the_job: Math.round((performance.now() - quietUntilMs) / 1000),
    quiet,
    busy,
    p99_ratio: Math.round((busy.p99_of_windows_ms / quiet.p99_of_windows_ms) * 100) / 100,
  });
} finally {
  server?.child.kill('SIGTERM');
  await server?.exited;
  rmSync(dataDir, { recursive: true, force: true });
}
