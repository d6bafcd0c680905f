// Several workers behind one port act as one server, and end with their supervisor.
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { POOL_NAME } from '../../src/platform/db/application-names.ts';
import { certificateFor, testCa } from '../support/certificates.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { query } from '../support/place.ts';
import {
  childrenOf,
  isAlive,
  killIfAlive,
  runCommand,
  type ServerProcess,
  spawnServer,
  workersOf,
} from '../support/process.ts';
import { ask, EACH, jsonOf, linesOf, MASTER_KEY, ROOT_KEY, untilListening, WAIT } from '../support/workers.ts';

describe('two workers', () => {
  let database: TestDatabase;
  let dataDir: string;
  let server: ServerProcess;
  let api_key: string;
  /** Counts the requests that arrive, and answers after a moment. */
  let destination: Server;
  let destinationPort: number;
  let arrived = 0;
  beforeAll(async () => {
    dataDir = mkdtempSync(join(tmpdir(), 'strongroom-workers-'));
    database = await createDatabase();
    destination = createServer(certificateFor('localhost'), (request, response) => {
      arrived += 1;
      request.resume().on('end', () => setTimeout(() => response.end('{"charge":"done"}'), 50));
    });
    await new Promise<void>((resolve) => destination.listen(0, '127.0.0.1', resolve));
    destinationPort = (destination.address() as AddressInfo).port;
    const ca = join(dataDir, 'ca.pem');
    writeFileSync(ca, testCa);
    server = await spawnServer(dataDir, {
      WORKERS: '2',
      EGRESS_PRIVATE_HOSTS: `localhost:${destinationPort}`,
      NODE_EXTRA_CA_CERTS: ca,
      DATABASE_URL: database.url,
      MASTER_KEY,
      PGPASSWORD: 'of-nobody',
      NODE_AUTH_TOKEN: 'x',
    });
    await untilListening(server);
    ({ api_key } = server.credentials());
  });
  afterAll(async () => {
    server.child.kill();
    await server.exited;
    destination.close();
    await database.drop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  test('both serve, and write their lines whole into one log', async () => {
    const workers = workersOf(server);
    expect(workers).toHaveLength(2);
    const before = linesOf(server).length;
    const send = async () => {
      for (let index = 0; index < 50; index += 1) expect((await ask(server, api_key, '/permissions')).status).toBe(200);
    };
    await Promise.all(Array.from({ length: 8 }, send));
    const requests = () =>
      linesOf(server)
        .slice(before)
        .filter(({ route }) => route === '/permissions');
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
    const environment = { DATABASE_URL: database.url, MASTER_KEY, DATA_DIR: dataDir };
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

  test('send a request with a key once, asked at the same time, and both know its answer', async () => {
    for (let round = 0; round < 5; round += 1) {
      const sent = {
        'svc-proxy-url': `https://localhost:${destinationPort}/charge`,
        'svc-idempotency-key': randomUUID(),
      };
      arrived = 0;
      const charge = () => ask(server, api_key, '/proxy', { amount: round }, sent);
      const statuses = (await Promise.all(EACH.map(charge))).map(({ status }) => status);
      expect(statuses.every((status) => [200, 409].includes(status))).toBe(true);
      expect([statuses.includes(200), arrived]).toEqual([true, 1]);
      const known = await Promise.all(EACH.map(charge));
      expect(await Promise.all(known.map(jsonOf))).toEqual(EACH.map(() => ({ charge: 'done' })));
      expect(arrived).toBe(1);
    }
  });

  test('count the uses of a value together, asked at the same time', async () => {
    const bound = { data: 'value', bound_to: { hosts: ['localhost'], max_uses: 3 } };
    const { id } = await jsonOf(await ask(server, api_key, '/tokens', { type: 'token', ...bound }));
    const sent = { 'svc-proxy-url': `https://localhost:${destinationPort}/charge` };
    arrived = 0;
    const answers = await Promise.all(
      [...EACH, ...EACH].map(() => ask(server, api_key, '/proxy', { card: `{{ ${id} }}` }, sent)),
    );
    expect([arrived, answers.filter(({ status }) => status === 200).length]).toEqual([3, 3]);
  });

  test('let an invitation be accepted once, by one of several at the same time', async () => {
    const invited = await ask(server, api_key, '/tenants/self/invitations', { email: 'ada@example.com' });
    expect(invited.status).toBe(201);
    const outbox = join(dataDir, 'outbox');
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
