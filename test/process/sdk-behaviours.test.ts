// Runs the table of sdk/behaviours.ts with each client of the API: against a server, and a misbehaving one in front of it.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Behaviour, behaviours } from '../../sdk/behaviours.ts';
import { certificateFor, expiredCertificateFor, testCa } from '../support/certificates.ts';
import { createDataDir } from '../support/database.ts';
import { type MisbehavingServer, startMisbehavingServer } from '../support/misbehaving-server.ts';
import { freePort, root, type ServerProcess, spawnServer, untilReady } from '../support/process.ts';
import { findProgram, isInstalled } from '../support/programs.ts';
import { startServer, TEST_ROOT_KEY, type TestServer } from '../support/server.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

type Outcome = { value?: any; error?: Record<string, any>; waits: number[] };

type Driver = { run(command: object): Promise<Outcome>; stop(): Promise<void> };

let server: TestServer;
let dataDir: string;
let killable: ServerProcess;
let destination: Upstream;
const fronts: Partial<Record<NonNullable<Behaviour['via']> | 'front', MisbehavingServer>> = {};
/** What behaviours name with a $. */
const prepared: Record<string, string> = {};

const MANY = 1_050;

const start = async (port: string): Promise<void> => {
  killable = await spawnServer(dataDir, {
    DATABASE_URL: server.databaseUrl,
    MASTER_KEY: TEST_ROOT_KEY,
    NODE_ENV: 'test',
    PORT: port,
    RATE_LIMIT: 'off',
    LOG_LEVEL: 'error',
    EGRESS_PRIVATE_HOSTS: `localhost:${destination.port}`,
    NODE_EXTRA_CA_CERTS: join(dataDir, 'ca.pem'),
  });
  await untilReady(killable);
};

const restart = async (): Promise<void> => {
  const { port } = new URL(killable.base_url);
  killable.child.kill('SIGKILL');
  await killable.exited;
  await start(port);
};

const prepareTenants = async (): Promise<void> => {
  const { tenant } = server;
  const many = await server.newTenant();
  const made = (
    await server.tokenize(
      Array.from({ length: MANY }, (_, at) => `value ${at}`),
      many.api_key,
    )
  ).status;
  expect(made).toBe(200);
  for (const name of ['One', 'Two'])
    await server.request('POST', '/applications', { key: many.api_key, json: { name, permissions: ['token:read'] } });
  const application = { name: 'Limited', permissions: ['token:read'], daily_reveals: 0 };
  const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] }];
  const limited = await server.request('POST', '/applications', { json: { ...application, permissions: [], rules } });
  const card = await server.request('POST', '/tokens', { json: { data: 'of the first tenant' } });
  Object.assign(prepared, {
    $cardId: card.body.id,
    $destination: `https://localhost:${destination.port}`,
    $wrongKey: tenant.api_key.replace(/.$/, (last) => (last === '0' ? '1' : '0')),
    $otherKey: many.api_key,
    $manyKey: many.api_key,
    $readerKey: (await server.newKey(tenant, { permissions: ['token:read'] })).api_key,
    $limitedKey: limited.body.key,
  });
};

const countReceived = (wanted: string): number => destination.received.filter(({ url }) => url === wanted).length;

beforeAll(async () => {
  server = await startServer({ RATE_LIMIT: 'off' });
  dataDir = createDataDir('sdk-behaviours');
  writeFileSync(join(dataDir, 'ca.pem'), testCa);
  destination = await startUpstream({
    hosts: ['localhost'],
    answer: ({ url = '', headers }, response) => {
      if (url === '/moves') response.writeHead(302, { location: '/elsewhere' }).end();
      else if (url === '/signs-in') response.writeHead(200, { 'set-cookie': 'account=4711; Path=/' }).end();
      else if (url === '/breaks') response.destroy();
      else if (url.startsWith('/count/'))
        response.end(`received: ${countReceived(url.replace('/count/', '/counted/'))}`);
      else if (url === '/cookies') response.writeHead(200).end(`cookies: ${headers.cookie}`);
      else response.writeHead(url === '/fails' ? 500 : 200).end(url === '/fails' ? 'the destination fails' : 'done');
    },
  });
  const port = await freePort();
  await Promise.all([start(String(port)), prepareTenants()]);
  fronts.front = await startMisbehavingServer({ port, restart });
  fronts.tls = await startMisbehavingServer({ port, restart, tls: certificateFor('localhost') });
  fronts.expired = await startMisbehavingServer({ port, restart, tls: expiredCertificateFor('localhost') });
  fronts.other_name = await startMisbehavingServer({ port, restart, tls: certificateFor('other.test') });
});
afterAll(async () => {
  await Promise.all(Object.values(fronts).map((front) => front.close()));
  killable.child.kill('SIGKILL');
  await killable.exited;
  await destination.close();
  await server.close();
  rmSync(dataDir, { recursive: true, force: true });
});

/** In ASCII: readline takes some characters of Unicode for line ends. */
const toLine = (value: object): string =>
  JSON.stringify(value).replaceAll(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** A process that runs one call after another with a client. */
const startDriver = (command: string, args: string[], environment: Record<string, string> = {}): Driver => {
  const ca = join(dataDir, 'ca.pem');
  const env = { PATH: process.env['PATH'], NODE_EXTRA_CA_CERTS: ca, SSL_CERT_FILE: ca, ...environment };
  const child: ChildProcess = spawn(command, args, {
    cwd: join(root, 'sdk/drivers'),
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout as NonNullable<typeof child.stdout> })[Symbol.asyncIterator]();
  return {
    run: async (asked) => {
      child.stdin?.write(`${toLine(asked)}\n`);
      const { value, done } = await lines.next();
      if (done) throw new Error('the driver ended');
      return JSON.parse(value);
    },
    stop: async () => {
      const ended = child.exitCode === null ? once(child, 'exit') : undefined;
      child.stdin?.end();
      await ended;
    },
  };
};

/** The oldest Node of the machine, which is one that the client supports; packages of this checkout bring a newer one. */
const systemPath = (process.env['PATH'] ?? '').split(delimiter).filter((path) => !path.includes('node_modules'));

type Client = {
  name: string;
  start(): Driver;
  /** Faults, and properties of steps, whose behaviours are not tried. */
  leavesOut?: string[];
};
const clients: Client[] = [
  { name: 'Node, ES module', start: () => startDriver('node', ['node.mjs'], { PATH: systemPath.join(delimiter) }) },
  // A restart costs seconds, and the code is the same.
  { name: 'Node, CommonJS', start: () => startDriver(process.execPath, ['node.cjs']), leavesOut: ['kill_after'] },
  // A call that blocks cannot be aborted.
  { name: 'Python', start: () => startPython('sync'), leavesOut: ['abortAfterMs'] },
  { name: 'Python, asyncio', start: () => startPython('async'), leavesOut: ['kill_after'] },
];

const startPython = (kind: string): Driver =>
  startDriver(findProgram('python3-httpx') as string, ['driver.py', kind], {
    PYTHONPATH: join(root, 'sdk/python'),
    PYTHONDONTWRITEBYTECODE: '1',
  });

/** Puts what was prepared, and ids of earlier steps, in the place of their names. */
const fill = (value: any, run: string, earlier: Outcome[]): any => {
  if (typeof value === 'string')
    return value
      .replaceAll('$run', run)
      .replaceAll(/\$(\d)\.id/g, (_, step: string) => earlier[Number(step)]?.value.id)
      .replaceAll(/\$[a-z]\w+/gi, (name) => prepared[name] ?? name);
  if (Array.isArray(value)) return value.map((item) => fill(item, run, earlier));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fill(item, run, earlier)]));
};

const checkError = (error: Record<string, any>, wanted: Record<string, any>): void => {
  const { count, apart = '', ...parts } = wanted;
  expect(error).toMatchObject({ ...(parts['kind'] === undefined && { kind: 'StrongroomError' }), ...parts });
  expect(JSON.stringify(error)).not.toMatch(/secret|svc_test_/);
  expect(error['message'] ?? '').toContain(apart);
  if (error['message']) expect(error['message'].split('\n')[0].length).toBe(error['message'].length);
  if (count !== undefined) {
    expect(Object.keys(error['errors']).length).toBe(count);
    expect(error['message'].length).toBeLessThan(300);
  }
};

const checkValue = (value: any, wanted: any): void => {
  if (wanted?.distinct === undefined)
    expect(value).toEqual(isObject(wanted) ? expect.objectContaining(wanted) : wanted);
  else expect([value.length, new Set(value).size]).toEqual([wanted.distinct, wanted.distinct]);
};
const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const checkReceived = (wanted: Record<string, unknown>): void => {
  const last = destination.received.at(-1);
  const headers = Object.fromEntries((last?.headers ?? []).map(([name, value]) => [name.toLowerCase(), value]));
  expect({ ...headers, ...last, body: last?.body.toString() }).toMatchObject(wanted);
};

/** No server listens there. */
const writeAwayUrl = async (): Promise<string> => `http://127.0.0.1:${await freePort()}`;

const runBehaviour = async (driver: Driver, behaviour: Behaviour): Promise<void> => {
  const run = randomUUID();
  const { via, key, client, faults = [], steps, requests, waited } = behaviour;
  const front = fronts[via ?? 'front'];
  front?.script(faults);
  const away = via === 'away' ? await writeAwayUrl() : undefined;
  const plain = { direct: killable.base_url, no_tls: killable.base_url.replace('http:', 'https:') };
  const baseUrl = front?.url ?? away ?? plain[via as keyof typeof plain];
  const apiKey = key === undefined ? server.tenant.api_key : prepared[key];
  const { firstIsAway, ...given } = client ?? {};
  const options = firstIsAway ? { ...given, firstUrl: await writeAwayUrl() } : given;
  const outcomes: Outcome[] = [];
  for (const [at, step] of steps.entries()) {
    const asked = { ...fill(step, run, outcomes), ...(at === 0 && { client: { ...options, apiKey, baseUrl } }) };
    outcomes.push(await driver.run(asked));
  }
  const { value, error, waits } = outcomes.at(-1) as Outcome;
  if (behaviour.error) checkError(error ?? { value }, behaviour.error);
  else {
    expect(error).toBeUndefined();
    checkValue(value, fill(behaviour.value, run, outcomes));
  }
  if (requests !== undefined) expect(front?.seen.length).toBe(requests);
  if (behaviour.same) {
    expect(new Set(front?.seen.map((seen) => `${seen.key} ${seen.digest}`)).size).toBe(1);
    expect(front?.seen[0]?.key).toMatch(/^.{16,}$/);
  }
  const sum = waits.reduce((all, ms) => all + ms, 0);
  if (waited) expect([sum, sum >= waited[0] && sum <= waited[1]]).toEqual([sum, true]);
  if (behaviour.stored !== undefined) {
    const { body } = await server.request('POST', '/tokens/search', { json: { query: `metadata.run:${run}` } });
    expect(body.pagination.total_items).toBe(behaviour.stored);
  }
  if (behaviour.received) checkReceived(behaviour.received);
};

test('the table has at least 40 behaviours, each with its own name', () => {
  expect(new Set(behaviours.map(({ name }) => name)).size).toBe(behaviours.length);
  expect(behaviours.length).toBeGreaterThanOrEqual(40);
});

describe.each(clients.filter(({ name }) => !name.startsWith('Python') || isInstalled('python3-httpx')))(
  '$name',
  ({ start: startClient, leavesOut = [] }) => {
    let driver: Driver;
    beforeAll(() => {
      driver = startClient();
    });
    afterAll(() => driver.stop());
    const isTried = ({ faults = [], steps }: Behaviour): boolean =>
      ![...faults.map((fault) => fault.do), ...steps.flatMap(Object.keys)].some((name) => leavesOut.includes(name));
    test.each(behaviours.filter(isTried))('$name', (behaviour) => runBehaviour(driver, behaviour));
  },
);
