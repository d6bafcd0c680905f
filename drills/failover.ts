// Failover under load: switchovers, killed PostgreSQL and killed nodes under Patroni must lose nothing that was acknowledged.
// Skipped where the packages are missing. Usage: npm run drill:failover, with DRILL_ROUNDS of each kind (5)
import { execFileSync, type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { stopChild, untilReady } from '../bench/servers.ts';
import { freePort, root } from '../test/support/process.ts';
import { type Cluster, configurationWith, type NodeName, PROGRAMS, startCluster } from './failover/cluster.ts';
import { type Load, RETRY_LATER, startLoad, type Token } from './failover/load.ts';

const ROUNDS = Number(process.env['DRILL_ROUNDS'] ?? 5);
const SERVERS = 2;
/** Load before a failure and after the recovery. */
const STEADY_MS = 3_000;
/** A killed node starts again after the next one leads, and its machine has booted. */
const BOOT_MS = 3_000;
/** Every so many tokens are read through the API. */
const READ_EVERY = 50;
/** Cards right after a recovery whose codes are read once more in the end. */
const CODES_READ_MAX = 200;

const say = (text: string): void => void process.stderr.write(`${text}\n`);

const missing = Object.values(PROGRAMS).filter((path) => !existsSync(path));
if (missing.length > 0) {
  say(`skipped: ${missing.join(', ')} missing (Debian: apt-get install postgresql-15 patroni etcd-server haproxy)`);
  process.exit(0);
}

const failures: { name: string; cause(cluster: Cluster, leader: NodeName): Promise<void> }[] = [
  { name: 'switchover', cause: (cluster, leader) => cluster.switchover(leader) },
  { name: 'kill -9 of PostgreSQL', cause: async (cluster, leader) => cluster.killPostgres(leader) },
  {
    name: 'kill -9 of the node',
    cause: async (cluster, leader) => {
      await cluster.killNode(leader);
      await cluster.untilLed(leader);
      await pause(BOOT_MS);
      cluster.startNode(leader);
    },
  },
];

/** The longest time without an acknowledgement. */
const findOutage = (tokens: readonly Token[], fromMs: number): { endMs: number; seconds: number } => {
  let outage = { endMs: fromMs, seconds: 0 };
  let beforeMs = fromMs;
  for (const { acknowledgedMs } of tokens) {
    if (acknowledgedMs <= fromMs) continue;
    const seconds = (acknowledgedMs - beforeMs) / 1000;
    if (seconds > outage.seconds) outage = { endMs: acknowledgedMs, seconds };
    beforeMs = acknowledgedMs;
  }
  return outage;
};

const directory = mkdtempSync(join(tmpdir(), 'strongroom-failover-'));
// The user of PostgreSQL must reach its own directories below.
chmodSync(directory, 0o755);
const stops: (() => Promise<unknown>)[] = [];
const faults: string[] = [];

const stopAll = async (): Promise<void> => {
  for (const stop of stops.splice(0)) await stop();
};
// PostgreSQL has a session of its own, and would outlive the drill.
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void stopAll().finally(() => process.exit(1)));

const startHaproxy = (name: string, text: string): void => {
  const path = join(directory, name);
  writeFileSync(path, text);
  const child = spawn(PROGRAMS.haproxy, ['-db', '-q', '-f', path], { stdio: ['ignore', 'ignore', 'inherit'] });
  stops.unshift(() => stopChild(child));
};

const check = async (load: Load, tokens: readonly Token[], afterRecovery: readonly Token[], databaseUrl: string) => {
  const client = new Client({ connectionString: databaseUrl, options: '-c strongroom.tenants=*' });
  await client.connect();
  const idsOf = async (sql: string): Promise<Set<string>> =>
    new Set((await client.query<{ id: string }>(sql)).rows.map(({ id }) => id));
  const stored = await idsOf('SELECT id FROM tokens');
  const logged = await idsOf("SELECT unnest(entity_ids) AS id FROM audit_log WHERE operation = 'create'");
  await client.end();
  let unread = 0;
  let codesLost = 0;
  const sample = new Set([...tokens.filter((_, index) => index % READ_EVERY === 0), ...afterRecovery]);
  for (const token of sample) {
    const { status, cvc } = await load.read(token);
    if (status !== 200) unread += 1;
    else if (cvc !== token.cvc) codesLost += 1;
  }
  return {
    lost: tokens.filter(({ id }) => !stored.has(id)).length,
    notLogged: tokens.filter(({ id }) => !logged.has(id)).length,
    read: sample.size,
    unread,
    codesLost,
  };
};

const expectNone = (count: number, what: string): void => void (count > 0 && faults.push(`${count} ${what}`));

try {
  const cluster = await startCluster(join(directory, 'cluster'));
  stops.unshift(cluster.stop);
  say('three nodes run');
  const databasePort = await freePort();
  startHaproxy('haproxy-database.cfg', cluster.haproxy(databasePort));
  await pause(STEADY_MS);
  const databaseUrl = `postgresql://${cluster.user}:${cluster.password}@127.0.0.1:${databasePort}/strongroom`;
  const environment = {
    PATH: process.env['PATH'],
    NODE_ENV: 'production',
    DATABASE_URL: databaseUrl,
    MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
    LOG_LEVEL: 'error',
    CONSOLE: 'off',
  };
  const command = (...args: string[]): { api_key: string } =>
    JSON.parse(
      execFileSync(process.execPath, [join(root, 'bin/strongroom.cjs'), ...args, '--json'], {
        cwd: directory,
        env: environment,
        encoding: 'utf8',
      }),
    );
  const { api_key: creator } = command('bootstrap', '--tenant-name', 'Drill');
  const rule = { description: 'all', priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] };
  const { api_key: reader } = command('keys', 'create', '--name', 'Reader', '--rules', JSON.stringify([rule]));
  const start = async (): Promise<number> => {
    const port = await freePort();
    const child: ChildProcess = spawn(process.execPath, ['--disable-sigusr1', join(root, 'bin/start.cjs')], {
      cwd: directory,
      env: { ...environment, PORT: String(port), DRAIN_SECONDS: '0' },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    stops.unshift(() => stopChild(child));
    await untilReady(`http://127.0.0.1:${port}/readyz`, child);
    return port;
  };
  const ports = await Promise.all(Array.from({ length: SERVERS }, start));
  const front = await freePort();
  startHaproxy(
    'haproxy-front.cfg',
    configurationWith('haproxy-front.cfg', {
      ':443 ssl crt /etc/haproxy/vault.pem': `127.0.0.1:${front}`,
      '10.0.0.21:8080': `127.0.0.1:${ports[0]}`,
      '10.0.0.22:8080': `127.0.0.1:${ports[1]}`,
    }),
  );
  await pause(STEADY_MS);

  const rows: string[] = [];
  let leader = await cluster.untilHealthy();
  for (const { name, cause } of failures) {
    const load = startLoad(`http://127.0.0.1:${front}`, { creator, reader });
    const outages: number[] = [];
    const afterRecovery: Token[] = [];
    for (let round = 1; round <= ROUNDS; round += 1) {
      await pause(STEADY_MS);
      const former = leader;
      const fromMs = performance.now();
      await cause(cluster, former);
      leader = await cluster.untilHealthy(former);
      await pause(STEADY_MS);
      const { endMs, seconds } = findOutage(load.acknowledged, fromMs);
      outages.push(seconds);
      const since = load.acknowledged.filter((token) => token.cvc && token.acknowledgedMs >= endMs);
      afterRecovery.push(...since.slice(0, CODES_READ_MAX));
      say(`${name} ${round} of ${ROUNDS}: ${former} to ${leader}, ${seconds.toFixed(1)} s without an acknowledgement`);
    }
    await load.stop();
    const checked = await check(load, load.acknowledged, afterRecovery, databaseUrl);
    const others = [...load.errors].filter(([text]) => text !== RETRY_LATER);
    expectNone(checked.lost, `acknowledged tokens lost (${name})`);
    expectNone(checked.notLogged, `acknowledged tokens without a log row (${name})`);
    expectNone(checked.unread, `tokens that could not be read (${name})`);
    expectNone(checked.codesLost, `security codes lost (${name})`);
    expectNone(load.withoutCode.length, `security codes missing right after their creation (${name})`);
    for (const [text, count] of others) expectNone(count, `times "${text}" (${name})`);
    rows.push(
      [
        name,
        outages.map((seconds) => seconds.toFixed(1)).join(' '),
        load.acknowledged.length,
        checked.lost,
        checked.notLogged,
        `${checked.codesLost} of ${checked.read}`,
        load.withoutCode.length,
        [...load.errors].map(([text, count]) => `${text}: ${count}`).join(', '),
        (load.longestErrorMs() / 1000).toFixed(1),
      ].join(' | '),
    );
    say(rows.at(-1) ?? '');
  }
  console.log(
    '| Failure | Outages (s) | Acknowledged | Lost | Not logged | Codes lost, of those read | Codes missing at once | Errors | Longest wait for an error (s) |\n|---|---|---|---|---|---|---|---|---|',
  );
  for (const row of rows) console.log(`| ${row} |`);
  for (const fault of faults) say(fault);
  if (faults.length > 0) process.exitCode = 1;
} catch (error) {
  process.exitCode = 1;
  say((error as Error).message);
} finally {
  await stopAll();
  if (process.exitCode) say(`the logs of the nodes: ${directory}`);
  else rmSync(directory, { recursive: true, force: true });
}
