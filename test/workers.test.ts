// Several workers behind one port act as one server, and end with their supervisor.
import { POOL_NAME } from '../src/platform/db/application-names.ts';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../src/platform/config.ts';
import { findRunningPostgres } from '../src/platform/dev-postgres/dev-postgres.ts';
import { balance } from './support/balancer.ts';
import {
  createDatabase,
  createEmptyDatabase,
  prepareDataDir,
  seeingAllTenants,
  type TestDatabase,
} from './support/database.ts';
import {
  childrenOf,
  freePort,
  isAlive,
  killIfAlive,
  postgresProcesses,
  root,
  runCommand,
  type ServerProcess,
  spawnServer,
  untilReady,
  workersOf,
} from './support/process.ts';

const ROOT_KEY = Buffer.alloc(32, 7);
const MASTER_KEY = ROOT_KEY.toString('base64');
/** The lock on a data directory (platform/dev-postgres/lock.ts). */
const LOCK_KEY = '91616979177031';
const END_LOCK_SESSION =
  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'strongroom lock'";
const WAIT = { timeout: 30_000 };
/** New connections that reach every worker: the supervisor gives them to workers in turn. */
const EACH = [0, 1, 2, 3, 4, 5];

/** The log, as far as its lines have arrived. What is written beside it is no JSON. */
const linesOf = (server: ServerProcess): any[] =>
  server
    .output()
    .split('\n')
    .slice(0, -1)
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));

/** Until every worker serves. */
const untilListening = async (server: ServerProcess): Promise<void> => {
  await untilReady(server);
  while (!server.output().includes('"listening"')) await pause(20);
};

/** A request over a connection of its own. */
const ask = (server: ServerProcess, api_key: string, path: string, json?: unknown, headers = {}) =>
  fetch(server.base_url + path, {
    method: json === undefined ? 'GET' : 'POST',
    headers: { 'svc-api-key': api_key, 'content-type': 'application/json', connection: 'close', ...headers },
    ...(json === undefined ? {} : { body: JSON.stringify(json) }),
  });

const jsonOf = (answer: Response): Promise<any> => answer.json();

const query = async (url: string, sql: string, values: unknown[] = []): Promise<any[]> => {
  const client = new Client({ connectionString: url, ...seeingAllTenants });
  await client.connect();
  try {
    return (await client.query(sql, values)).rows;
  } finally {
    await client.end();
  }
};

/** A directory and a server with two workers on it; ended with everything of it afterwards. */
const place = () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-workers-'));
  const servers: ServerProcess[] = [];
  return {
    dataDir,
    start: async (environment: Record<string, string> = {}, command?: [string, ...string[]]) => {
      const server = await spawnServer(dataDir, { WORKERS: '2', ...environment }, command);
      servers.push(server);
      return server;
    },
    clear: async () => {
      for (const { child, exited } of servers) {
        child.kill();
        await exited;
      }
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
};

describe('two workers', () => {
  let database: TestDatabase;
  let here: ReturnType<typeof place>;
  let server: ServerProcess;
  let api_key: string;
  beforeAll(async () => {
    here = place();
    database = await createDatabase();
    server = await here.start({
      DATABASE_URL: database.url,
      MASTER_KEY,
      PGPASSWORD: 'of-nobody',
      NODE_AUTH_TOKEN: 'x',
    });
    await untilListening(server);
    ({ api_key } = server.credentials());
  });
  afterAll(async () => {
    await here.clear();
    await database.drop();
  });

  test('both serve, and write their lines whole into one log', async () => {
    const workers = workersOf(server);
    expect(workers).toHaveLength(2);
    const before = linesOf(server).length;
    const send = async () => {
      for (let index = 0; index < 50; index += 1) expect((await ask(server, api_key, '/healthz')).status).toBe(200);
    };
    await Promise.all(Array.from({ length: 8 }, send));
    const requests = () =>
      linesOf(server)
        .slice(before)
        .filter(({ route }) => route === '/healthz');
    await expect.poll(() => requests().length, WAIT).toBe(400);
    for (const pid of workers) expect(requests().filter((line) => line.pid === pid).length).toBeGreaterThan(100);
  });

  test('have no secret in their environment and command line, nor have their executors', async () => {
    const workers = workersOf(server);
    const processes = [...workers, ...workers.flatMap(childrenOf)];
    expect(processes.length).toBeGreaterThan(workers.length);
    for (const pid of processes)
      for (const file of ['environ', 'cmdline']) {
        const text = readFileSync(`/proc/${pid}/${file}`, 'utf8');
        expect(text, `${file} of ${pid}`).not.toMatch(/MASTER_KEY|DATABASE_URL|postgresql:|PGPASSWORD|AUTH_TOKEN/);
        for (const form of [MASTER_KEY, ROOT_KEY.toString('hex'), ROOT_KEY.toString('latin1')])
          expect(text).not.toContain(form);
      }
  });

  test('refuse a key that is revoked, both', async () => {
    const environment = { DATABASE_URL: database.url, MASTER_KEY, DATA_DIR: here.dataDir };
    const { stdout } = await runCommand(['keys', 'create', '--json'], environment);
    const key = JSON.parse(stdout).api_key as string;
    const statuses = async () => {
      const answers = await Promise.all(EACH.map(() => ask(server, key, '/tokens')));
      return [...new Set(answers.map(({ status }) => status))];
    };
    expect(await statuses()).toEqual([200]);
    await runCommand(['keys', 'revoke', key], environment);
    await expect.poll(statuses, { timeout: 2_000 }).toEqual([401]);
  });

  test('do a request with an idempotency key once, asked at the same time', async () => {
    for (let round = 0; round < 10; round += 1) {
      const headers = { 'svc-idempotency-key': randomUUID() };
      const body = { data: `round ${round}`, metadata: { round: `idempotent-${round}` } };
      const answers = await Promise.all(EACH.map(() => ask(server, api_key, '/tokens', body, headers)));
      const made = await Promise.all(answers.filter(({ ok }) => ok).map(jsonOf));
      expect(new Set(made.map(({ id }) => id)).size).toBe(1);
      expect(answers.map(({ status }) => status).every((status) => [201, 409].includes(status))).toBe(true);
      const found = await ask(server, api_key, '/tokens/search', { query: `metadata.round:idempotent-${round}` });
      const { data } = await jsonOf(found);
      expect(data).toHaveLength(1);
    }
  });

  test('let an invitation be accepted once, by one of several at the same time', async () => {
    const invited = await ask(server, api_key, '/tenants/self/invitations', { email: 'ada@example.com' });
    expect(invited.status).toBe(201);
    const outbox = join(here.dataDir, 'outbox');
    const mails = () => {
      try {
        return readdirSync(outbox).filter((name) => name.endsWith('.eml'));
      } catch {
        return [];
      }
    };
    await expect.poll(mails, WAIT).toHaveLength(1);
    const [, path = ''] = /(\/join\/\w{32})/.exec(readFileSync(join(outbox, mails()[0] as string), 'utf8')) ?? [];
    const accept = () =>
      fetch(server.base_url + path, {
        method: 'POST',
        redirect: 'manual',
        headers: { 'sec-fetch-site': 'same-origin', connection: 'close' },
        body: new URLSearchParams({ first_name: 'Ada', last_name: 'L', password: 'correct horse battery' }),
      });
    const statuses = (await Promise.all(EACH.map(accept))).map(({ status }) => status);
    expect(statuses.filter((status) => status === 303)).toHaveLength(1);
    expect((await query(database.url, 'SELECT FROM users')).length).toBe(1);
    // Nor is a mail sent twice.
    await pause(2_500);
    expect(mails()).toHaveLength(1);
  });

  test('share what stands for the machine: connections to the database, executors', async () => {
    const name = new URL(database.url).pathname.slice(1);
    await Promise.all(Array.from({ length: 300 }, () => ask(server, api_key, '/tokenize', 'x')));
    const [{ count }] = await query(
      database.url,
      `SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = $1 AND application_name = '${POOL_NAME}'`,
      [name],
    );
    // Those of the pools; each process has one more for notices.
    expect(count).toBeLessThanOrEqual(10);
  });

  test('one that is killed is replaced, and requests go on', async () => {
    const [killed = 0, other = 0] = workersOf(server);
    killIfAlive(killed);
    await expect.poll(() => server.output(), WAIT).toContain('"worker_ended"');
    for (let index = 0; index < 20; index += 1) expect((await ask(server, api_key, '/tokenize', 'x')).status).toBe(200);
    await expect.poll(() => server.output(), WAIT).toContain('a worker took its place');
    const workers = workersOf(server);
    expect(workers).toHaveLength(2);
    expect(workers).toContain(other);
    expect(workers).not.toContain(killed);
    const before = linesOf(server).length;
    for (const _ of EACH) expect((await ask(server, api_key, '/tokenize', 'x')).status).toBe(200);
    const serving = () =>
      new Set(
        linesOf(server)
          .slice(before)
          .flatMap(({ route, pid }) => (route ? [pid] : [])),
      );
    await expect.poll(() => serving().size, WAIT).toBe(2);
  });

  // The last of these: no server is left.
  test('end with their supervisor when it is killed, and so do their executors', async () => {
    const workers = workersOf(server);
    const processes = [...workers, ...workers.flatMap(childrenOf)];
    expect(processes.length).toBeGreaterThan(workers.length);
    server.child.kill('SIGKILL');
    await expect.poll(() => processes.filter(isAlive), WAIT).toEqual([]);
  });
});

describe('a supervisor', () => {
  test('starts one database, migrates once and prints its URL once; SIGTERM ends everything', async () => {
    const here = place();
    try {
      const server = await here.start({ DATABASE_POOL_MAX: '4' });
      await untilListening(server);
      await expect.poll(() => server.output(), WAIT).toContain('"listening"');
      const lines = linesOf(server);
      const told = (msg: string) => lines.filter((line) => line.msg === msg).length;
      expect(['postgres_initializing', 'postgres_ready', 'listening'].map(told)).toEqual([1, 1, 1]);
      expect(lines.find(({ msg }) => msg === 'listening')).toMatchObject({ base_url: server.base_url, workers: 2 });
      const { api_key } = server.credentials();
      for (const _ of EACH) expect((await ask(server, api_key, '/tokenize', 'x')).status).toBe(200);
      const tenants = await runCommand(['tenants', 'list'], { DATA_DIR: here.dataDir });
      expect(tenants.stdout.trim().split('\n')).toHaveLength(1);
      const processes = [...workersOf(server), ...postgresProcesses(here.dataDir)];
      expect(processes.length).toBeGreaterThan(3);
      server.child.kill('SIGTERM');
      expect(await server.exited).toBe(0);
      expect(processes.filter(isAlive)).toEqual([]);
      expect(server.output()).toContain('postgres_stopped');
      // The next start finds all in order.
      const next = await here.start({ WORKERS: '1' });
      await untilListening(next);
      expect((await ask(next, api_key, '/tokenize', 'x')).status).toBe(200);
    } finally {
      await here.clear();
    }
  });

  test('whose data directory is lost stops its workers, and exits with 1', async () => {
    const here = place();
    prepareDataDir(here.dataDir);
    try {
      const server = await here.start();
      await untilListening(server);
      const workers = workersOf(server);
      const postgres = postgresProcesses(here.dataDir);
      const other = new Client({ ...(await findRunningPostgres(here.dataDir)), ...seeingAllTenants });
      await other.connect();
      // Waits in the queue of the lock, and so has it the moment the session of the supervisor ends.
      const taken = other.query('SELECT pg_advisory_lock($1)', [LOCK_KEY]);
      const cutter = new Client({ ...(await findRunningPostgres(here.dataDir)), ...seeingAllTenants });
      await cutter.connect();
      await cutter.query(END_LOCK_SESSION);
      await cutter.end();
      await taken;
      expect(await server.exited).toBe(1);
      expect(server.output()).toContain('lock_gone');
      expect(workers.filter(isAlive)).toEqual([]);
      await other.end();
      process.kill(postgres[0] as number, 'SIGINT');
      await expect.poll(() => postgres.filter(isAlive), WAIT).toEqual([]);
    } finally {
      await here.clear();
    }
  });

  test('is ended at once by a second signal, with its workers', async () => {
    const [here, database] = [place(), await createDatabase()];
    try {
      const server = await here.start({ DATABASE_URL: database.url, MASTER_KEY, DRAIN_SECONDS: '60' });
      await untilListening(server);
      const workers = workersOf(server);
      server.child.kill('SIGTERM');
      await expect.poll(() => server.output(), WAIT).toContain('"draining"');
      await pause(1200);
      server.child.kill('SIGTERM');
      expect(await server.exited).toBe(1);
      await expect.poll(() => workers.filter(isAlive), WAIT).toEqual([]);
    } finally {
      await here.clear();
      await database.drop();
    }
  });

  test('a restart fails no request: all workers drain; one worker needs no process of its own', async () => {
    const [here, database] = [place(), await createEmptyDatabase()];
    const environment = { DATABASE_URL: database.url, MASTER_KEY, DRAIN_SECONDS: '2' };
    try {
      const alone = await here.start({ ...environment, WORKERS: '1' });
      // It migrates the empty database.
      await untilListening(alone);
      const several = await here.start(environment);
      await untilListening(several);
      expect([alone, several].map((server) => workersOf(server).length)).toEqual([0, 2]);
      const balancer = balance([alone.base_url, several.base_url], several.credentials().api_key);
      await expect.poll(() => balancer.inUse.size, WAIT).toBe(2);
      await expect.poll(() => balancer.answers.length, WAIT).toBeGreaterThan(200);
      const before = balancer.answers.length;
      several.child.kill('SIGTERM');
      expect(await several.exited).toBe(0);
      const during = balancer.answers.slice(before).filter(({ url }) => url === several.base_url);
      expect(during.filter(({ connection }) => connection === 'close').length).toBeGreaterThan(0);
      await balancer.stop();
      expect(balancer.failures).toEqual([]);
      expect([...new Set(balancer.answers.map(({ status }) => status))]).toEqual([200]);
      const draining = linesOf(several).filter(({ msg }) => msg === 'draining');
      expect(new Set(draining.map(({ pid }) => pid)).size).toBe(2);
    } finally {
      await here.clear();
      await database.drop();
    }
  });

  test('alone heeds a Ctrl-C, which a terminal sends to every process: requests under way end well', async () => {
    const [here, database] = [place(), await createDatabase()];
    try {
      const command: [string, ...string[]] = ['setsid', process.execPath, join(root, 'src/main.ts')];
      // The outer process of bubblewrap heeds the signal, so that the test runs without it.
      const environment = { DATABASE_URL: database.url, MASTER_KEY, SANDBOX_JAIL: 'landlock' };
      const server = await here.start(environment, command);
      await untilListening(server);
      const { api_key } = server.credentials();
      const post = async (path: string, json: object) => jsonOf(await ask(server, api_key, path, json));
      const code = `module.exports = async ({ args }) => {
        await new Promise((resolve) => setTimeout(resolve, args.ms));
        return { raw: 'ended' };
      };`;
      const formula = await post('/reactor-formulas', { name: 'Waits', type: 'private', code });
      const reactor = await post('/reactors', { name: 'Waits', formula: { id: formula.id } });
      const react = (ms: number) => ask(server, api_key, `/reactors/${reactor.id}/react`, { args: { ms } });
      // The executors of both workers are there before the signal.
      for (const _ of EACH) expect((await react(0)).status).toBe(200);
      const answering = react(3000);
      const uses = `SELECT FROM audit_log WHERE operation = 'use' AND entity_type = 'reactor'`;
      await expect.poll(async () => (await query(database.url, uses)).length, WAIT).toBe(EACH.length + 1);
      process.kill(-(server.child.pid as number), 'SIGINT');
      const answer = await answering;
      expect([answer.status, (await jsonOf(answer)).raw]).toEqual([200, 'ended']);
      expect(await server.exited).toBe(0);
    } finally {
      await here.clear();
      await database.drop();
    }
  });
});

describe('a start', () => {
  const refusal = 'WORKERS: must be a whole number from 1 to 64, or auto';

  test('with WORKERS=65 is refused, and says why', async () => {
    const here = place();
    try {
      const refused = await here.start({ WORKERS: '65' });
      expect(await refused.exited).toBe(1);
      expect(refused.output()).toContain(refusal);
      expect(refused.output()).not.toMatch(/\n\s+at /);
      expect(readdirSync(here.dataDir)).toEqual([]);
    } finally {
      await here.clear();
    }
  });

  test.for(['0', '-1', 'abc', '1.5', '1000', 'AUTO'])('with WORKERS=%s is refused', (WORKERS) => {
    expect(() => loadConfig({ WORKERS })).toThrow(refusal);
  });

  test('of workers that cannot listen says so once, and leaves nothing behind', async () => {
    const here = place();
    prepareDataDir(here.dataDir);
    const port = await freePort();
    const holder = createServer().listen(port, '127.0.0.1');
    await once(holder, 'listening');
    try {
      const refused = await here.start({ PORT: String(port) });
      expect(await refused.exited).toBe(1);
      expect(refused.output().match(/Port \d+ .* is taken/g)).toHaveLength(1);
      expect(refused.output()).toContain('postgres_stopped');
    } finally {
      holder.close();
      await here.clear();
    }
  });

  test('of workers takes its secrets from files too', async () => {
    const [here, database] = [place(), await createDatabase()];
    try {
      const files = { MASTER_KEY_FILE: join(here.dataDir, 'key'), DATABASE_URL_FILE: join(here.dataDir, 'url') };
      writeFileSync(files.MASTER_KEY_FILE, MASTER_KEY);
      writeFileSync(files.DATABASE_URL_FILE, database.url);
      const server = await here.start({ ...files, NODE_ENV: 'production', DRAIN_SECONDS: '0' });
      await untilListening(server);
      // What a replaced worker needs is not read again.
      for (const path of Object.values(files)) rmSync(path);
      killIfAlive(workersOf(server)[0] as number);
      await expect.poll(() => server.output(), WAIT).toContain('a worker took its place');
      server.child.kill('SIGTERM');
      expect(await server.exited).toBe(0);
    } finally {
      await here.clear();
      await database.drop();
    }
  });
});
