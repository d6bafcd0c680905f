// Requests with an idempotency key through a server that is killed: each is sent once at most, and its record says what is true.
import { writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { certificateFor, testCa } from '../support/certificates.ts';
import { post, query, test } from '../support/place.ts';
import { type ServerProcess, untilReady } from '../support/process.ts';
import { MASTER_KEY } from '../support/workers.ts';

/** A short form; `npm run drill:forwards` runs 120 of them. */
const CYCLES = Number(process.env['DRILL_CYCLES'] ?? 2);
/** Requests that are under way at each kill. */
const KEYS = 100;
/** The kill comes when up to so many have arrived: any step of a request can be under way. */
const ARRIVED_MAX = KEYS * 0.6;
/** And up to so much later. A destination waits as long. */
const SPREAD_MS = 300;

/** Where a destination waits, so that a kill finds requests there. Some never get as far: their connection waits for its handshake. */
const phases = ['none', 'head', 'body', 'before the answer', 'in the answer', 'after the answer'] as const;

const CANARY = 'canary-4711';
/** Two records of TLS and more: the destination reads it in pieces. */
const PADDING = 'x'.repeat(100_000);

const EXPIRE_LEASES = 'UPDATE forwards SET claimed_until = now() WHERE claimed_until IS NOT NULL';
const FIND_RECORDS = 'SELECT id, state, status, attempts, token_ids[1] AS token_id FROM forwards';

const portOf = (server: Server): number => (server.address() as AddressInfo).port;

/** Counts what came and what it did, by path. Where it is told an idempotency key, it does a thing once. */
const startDestination = async () => {
  const arrived = new Map<string, number>();
  const keys = new Map<string, Set<string>>();
  const effects = new Map<string, number>();
  const add = (counts: Map<string, number>, path: string) => void counts.set(path, (counts.get(path) ?? 0) + 1);
  const linger = () => pause(Math.random() * SPREAD_MS);
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = request.url ?? '';
    const phase = (arrived.get(path) ?? 0) > 0 ? 'none' : phases[Number(path.split('-').at(-1)) % phases.length];
    add(arrived, path);
    if (phase === 'head') await linger();
    let body = '';
    for await (const chunk of request) {
      if (phase === 'body' && body === '') await linger();
      body += String(chunk);
    }
    if (!body.includes(CANARY)) return void response.writeHead(400).end();
    const key = request.headers['idempotency-key'];
    const known = keys.get(path) ?? new Set<string>();
    keys.set(path, known);
    if (typeof key !== 'string' || !known.has(key)) add(effects, path);
    if (typeof key === 'string') known.add(key);
    if (phase === 'before the answer') await linger();
    response.writeHead(201, { 'content-type': 'application/json', 'content-length': 20 });
    response.write('{"charge"');
    if (phase === 'in the answer') await linger();
    response.end(':"ch_0000"}');
    if (phase === 'after the answer') await linger();
  };
  const tls = createTlsServer(certificateFor('localhost'), (request, response) => {
    // A killed server breaks connections off.
    answer(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => void tls.listen(0, resolve));
  const close = () => {
    tls.closeAllConnections();
    tls.close();
  };
  return { arrived, effects, port: portOf(tls), close };
};

/** Before a destination: connections wait for their TLS handshake until it opens. */
const startGate = async (port: number) => {
  let isOpen = false;
  const sockets = new Set<Socket>();
  const gate = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => sockets.delete(socket));
    if (!isOpen) return;
    const beyond = connect(port, 'localhost');
    beyond.on('error', () => socket.destroy());
    socket.on('close', () => beyond.destroy());
    socket.pipe(beyond).pipe(socket);
  });
  await new Promise<void>((resolve) => void gate.listen(0, resolve));
  const close = () => {
    for (const socket of sockets) socket.destroy();
    gate.close();
  };
  return { port: portOf(gate), close, open: (now: boolean) => void (isOpen = now) };
};

type Destination = Awaited<ReturnType<typeof startDestination>>;

/** One key: its request, and what its client has seen. */
type Order = { path: string; token: string; proxy: string; isRecognised: boolean; isAnswered: boolean };

const ask = (server: ServerProcess, { path, token, proxy }: Order): Promise<Response> =>
  post(
    server,
    `/proxy${path}`,
    { padding: PADDING, value: `{{ ${token} }}` },
    { 'svc-proxy-key': proxy, 'svc-idempotency-key': path },
  );

/** A busy machine takes longer than a destination may. */
const isLate = ({ status }: Response): boolean => status === 502 || status === 504;

/** As a client does where the vault has no room, and where the destination knows its key: again, after a pause. */
const askUntilTaken = async (server: ServerProcess, order: Order): Promise<Response> => {
  for (;;) {
    const answer = await ask(server, order);
    const isAskedAgain = answer.status === 429 || answer.status === 503 || (order.isRecognised && isLate(answer));
    if (!isAskedAgain) return answer;
    await answer.arrayBuffer();
    await pause(50);
  }
};

/** Sends all at once, and notes which were answered before the server was gone. */
const sendAll = (server: ServerProcess, orders: readonly Order[]): Promise<unknown> =>
  Promise.all(
    orders.map(async (order) => {
      try {
        const answer = await ask(server, order);
        await answer.arrayBuffer();
        order.isAnswered = answer.status === 201;
      } catch {
        // It was killed.
      }
    }),
  );

type Record = { id: string; state: string; status: number | null; attempts: number };
type Figures = { answered: number; failed: number; unknown: number; none: number; recognised: number };

/** What each record says is true: compared with what came to the destination. */
const checkRecords = (orders: Order[], records: Map<string, Record>, { arrived }: Destination, figures: Figures) => {
  for (const { path, token, isAnswered } of orders) {
    const record = records.get(token);
    const came = arrived.get(path) ?? 0;
    const said = `${path}: ${record?.state ?? 'no record'}, came ${came}`;
    if (!record || record.state === 'failed') expect(came, said).toBe(0);
    else if (record.state === 'answered') expect([came, record.status], said).toEqual([1, 201]);
    else expect(record.state, said).toBe('unknown');
    // It was stored before the client saw the first byte.
    if (isAnswered) expect(record?.state, said).toBe('answered');
    figures[(record?.state ?? 'none') as keyof Figures] += 1;
  }
};

/** Each client asks again: nothing is done twice. */
const repeatAll = async (
  server: ServerProcess,
  orders: Order[],
  records: Map<string, Record>,
  { arrived, effects }: Destination,
  figures: Figures,
) =>
  Promise.all(
    orders.map(async (order) => {
      const { path, token, isRecognised } = order;
      const record = records.get(token);
      const before = arrived.get(path) ?? 0;
      const answer = await askUntilTaken(server, order);
      const text = await answer.text();
      const came = arrived.get(path) ?? 0;
      const said = `${path}: ${record?.state ?? 'no record'}, then ${answer.status} ${text.slice(0, 200)}, came ${came}`;
      if (before > 0 && came > before) figures.recognised += 1;
      if (record?.state === 'unknown' && !isRecognised) {
        expect([answer.status, came], said).toEqual([409, before]);
        expect(text, said).toContain('outcome_unknown');
      } else if (!isLate(answer)) {
        expect(answer.status, said).toBe(201);
        expect(effects.get(path), said).toBe(1);
      }
      if (!isRecognised) expect(came, said).toBeLessThanOrEqual(1);
      else expect(effects.get(path), said).toBe(1);
    }),
  );

test(
  `kill -9 under ${KEYS} keys, ${CYCLES} times: none is sent twice, and records are true`,
  { timeout: 90_000 * (CYCLES + 1) },
  async ({ dataDir, database, start }) => {
    const destination = await startDestination();
    const gate = await startGate(destination.port);
    const figures: Figures = { answered: 0, failed: 0, unknown: 0, none: 0, recognised: 0 };
    try {
      const ca = join(dataDir, 'ca.pem');
      writeFileSync(ca, testCa);
      const serve = async (): Promise<ServerProcess> => {
        const server = await start({
          DATABASE_URL: database.url,
          MASTER_KEY,
          LOG_LEVEL: 'error',
          RATE_LIMIT: 'off',
          EGRESS_PRIVATE_HOSTS: `localhost:${destination.port},localhost:${gate.port}`,
          NODE_EXTRA_CA_CERTS: ca,
        });
        await untilReady(server);
        return server;
      };
      let server = await serve();
      const makeProxy = async (port: number, more: object): Promise<string> => {
        const url = `https://localhost:${port}`;
        const made = await post(server, '/proxies', { name: 'Drill', destination_url: url, ...more });
        expect(made.status).toBe(201);
        return ((await made.json()) as { key: string }).key;
      };
      const recognising = { idempotency_header: 'Idempotency-Key' };
      const plain = await makeProxy(destination.port, {});
      const recognised = await makeProxy(destination.port, recognising);
      const gated = await makeProxy(gate.port, {});
      for (let cycle = 0; cycle < CYCLES; cycle += 1) {
        gate.open(false);
        const values = Array.from({ length: KEYS }, (_, n) => `${CANARY}-${cycle}-${n}`);
        const tokens = (await (await post(server, '/tokenize', values)).json()) as string[];
        const orders = tokens.map((token, n): Order => {
          const [proxy, isRecognised] = n % 10 === 9 ? [gated, false] : n % 2 ? [recognised, true] : [plain, false];
          return { path: `/cycle-${cycle}/order-${n}`, token, proxy, isRecognised, isAnswered: false };
        });
        const arrivedBefore = destination.arrived.size;
        const sending = sendAll(server, orders);
        const least = arrivedBefore + 1 + Math.random() * ARRIVED_MAX;
        while (destination.arrived.size < least) await pause(1);
        await pause(Math.random() * SPREAD_MS);
        server.child.kill('SIGKILL');
        await server.exited;
        await sending;
        // What was on its way has arrived.
        await pause(SPREAD_MS * 2);
        gate.open(true);
        server = await serve();
        await query(database.url, EXPIRE_LEASES);
        const headers = { 'svc-api-key': server.credentials().api_key };
        expect((await fetch(`${server.base_url}/forwards`, { headers })).status).toBe(200);
        const rows = await query(database.url, FIND_RECORDS);
        const records = new Map<string, Record>(rows.map((row) => [row.token_id, row]));
        checkRecords(orders, records, destination, figures);
        await repeatAll(server, orders, records, destination, figures);
      }
      const times = [...destination.arrived.values()];
      expect(figures.unknown).toBeGreaterThan(0);
      console.log(
        JSON.stringify({ kills: CYCLES, keys: CYCLES * KEYS, ...figures, most_arrivals: Math.max(...times) }),
      );
    } finally {
      gate.close();
      destination.close();
    }
  },
);
