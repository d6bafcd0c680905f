// A rolling restart under load: two servers on one database behind HAProxy, restarted one after the other, must fail no request.
// Skipped where HAProxy is missing. Usage: npm run drill:restart
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Credentials, databaseOf, startServer, stopChild, untilReady } from '../bench/servers.ts';
import { freePort } from '../test/support/process.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const REQUESTS = 20_000;
const CLIENTS = 16;
/** Requests a second: the load lasts over both restarts. */
const RATE = 800;
const DRAIN_SECONDS = '5';

const say = (text: string): void => void process.stderr.write(`${text}\n`);

if (spawnSync('haproxy', ['-v']).status !== 0) {
  say('skipped: haproxy is not installed');
  process.exit(0);
}

/** Two failed checks, a second apart, take a server out: well within the time of a drain. */
const haproxyConfig = (port: number, servers: number[]): string => `
global
  maxconn 1000
defaults
  mode http
  timeout connect 2s
  timeout client 30s
  timeout server 30s
  option httpchk GET /readyz
  default-server inter 1s fall 2 rise 2
listen vault
  bind 127.0.0.1:${port}
  balance roundrobin
  http-reuse safe
${servers.map((each, index) => `  server vault${index} 127.0.0.1:${each} check`).join('\n')}
`;

const directory = mkdtempSync(join(tmpdir(), 'strongroom-restart-'));
const stops: (() => Promise<void>)[] = [];
try {
  // Its database serves the two; it takes no request itself.
  const owner = await startServer(join(directory, 'data'));
  stops.unshift(owner.stop);
  const { api_key }: Credentials = owner.credentials;
  const address = await databaseOf(owner.dataDir);
  const { host, port, user, password, database } = address;
  const MASTER_KEY = readFileSync(join(owner.dataDir, 'master.key'), 'utf8').trim();
  const start = async (at: number): Promise<ChildProcess> => {
    const child = spawn(process.execPath, ['--disable-sigusr1', 'bin/start.cjs'], {
      cwd: root,
      env: {
        PATH: process.env['PATH'],
        PORT: String(at),
        DATABASE_URL: `postgresql://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`,
        MASTER_KEY,
        DATA_DIR: join(directory, 'other'),
        DRAIN_SECONDS,
        LOG_LEVEL: 'warn',
        LOG_FORMAT: 'json',
      },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    await untilReady(`http://127.0.0.1:${at}/readyz`, child);
    return child;
  };
  const ports = [await freePort(), await freePort()];
  const servers = await Promise.all(ports.map(start));
  stops.unshift(async () => void (await Promise.all(servers.map(stopChild))));
  const front = await freePort();
  const configPath = join(directory, 'haproxy.cfg');
  writeFileSync(configPath, haproxyConfig(front, ports));
  const haproxy = spawn('haproxy', ['-db', '-f', configPath], { stdio: ['ignore', 'ignore', 'inherit'] });
  stops.unshift(() => stopChild(haproxy));
  await untilReady(`http://127.0.0.1:${front}/readyz`, haproxy);
  // Both are in use.
  await pause(3000);

  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
  const headers = { 'svc-api-key': api_key, 'content-type': 'application/json' };
  const send = (): Promise<string> =>
    new Promise((resolve) => {
      const sent = request(`http://127.0.0.1:${front}/tokenize`, { agent, method: 'POST', headers }, (response) => {
        response.resume();
        response.once('end', () => resolve(String(response.statusCode)));
        response.once('error', (error) => resolve(error.message));
      });
      sent.once('error', (error) => resolve(error.message));
      sent.end('"x"');
    });
  const results: Record<string, number> = {};
  let sentCount = 0;
  const began = performance.now();
  const work = async (): Promise<void> => {
    while (sentCount < REQUESTS) {
      sentCount += 1;
      const isDueMs = (sentCount / RATE) * 1000 - (performance.now() - began);
      if (isDueMs > 0) await pause(isDueMs);
      const result = await send();
      results[result] = (results[result] ?? 0) + 1;
    }
  };
  const load = Promise.all(Array.from({ length: CLIENTS }, work));
  for (const [index, at] of ports.entries()) {
    await pause(1000);
    say(`restarts server ${index + 1}, at request ${sentCount}`);
    await stopChild(servers[index] as ChildProcess);
    servers[index] = await start(at);
    await pause(3000);
  }
  say(`both are restarted, at request ${sentCount}`);
  const restartsWithin = sentCount < REQUESTS;
  await load;
  agent.destroy();
  const { 200: succeeded = 0, ...failed } = results;
  const failures = REQUESTS - succeeded;
  say(`${REQUESTS} requests, ${failures} failed${failures > 0 ? `: ${JSON.stringify(failed)}` : ''}`);
  if (!restartsWithin) throw new Error('the load ended before the restarts: raise REQUESTS');
  if (failures > 0) process.exitCode = 1;
} finally {
  for (const stop of stops) await stop();
  rmSync(directory, { recursive: true, force: true });
}
