// CPU time of server and database per request, for the work that other vaults are compared by, on filled tables. Rates say
// little on a shared machine; CPU time per request says what a request costs.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Pool } from 'undici';
import { cpuSeconds } from './cpu-time.ts';
import { cardOf, CARDS, fillVault, type FilledVault } from './filled.ts';
import { HOST, startDestination } from './proxy.ts';
import { makeReactor } from './react.ts';
import { ECHO, LARGE_ARGS, SMALL_ARGS, TRIVIAL } from './sandbox.ts';
import { remove, type RunningServer, startServer } from './servers.ts';
import { headersOf, median } from './turns.ts';

export const CONNECTIONS = 32;
/** For requests that are a hundred times the work. */
const FEW_CONNECTIONS = 8;
const HUNDRED = 100;
const ROUNDS = 5;
const WARM_SECONDS = 4;
const SECONDS = 4;
const PROXY_BODY_BYTES = 1024;

type Asked = { method?: 'GET' | 'POST'; path: string; headers: Record<string, string>; body?: string };
export type Work = { next: () => Asked; connections?: number; at_most_us?: number };

/** Sends requests over so many connections, each its next one when the last is answered. */
export const send = async (
  origin: string,
  work: Work,
  seconds: number,
): Promise<{ answered: number; failed: number }> => {
  const connections = work.connections ?? CONNECTIONS;
  const pool = new Pool(origin, { connections, pipelining: 1 });
  const until = performance.now() + seconds * 1000;
  let answered = 0;
  let failed = 0;
  const sendInTurn = async (): Promise<void> => {
    while (performance.now() < until) {
      const { method = 'POST', path, headers, body } = work.next();
      const response = await pool.request({ method, path, headers, body: body ?? null });
      await response.body.dump();
      if (response.statusCode < 300) answered += 1;
      else failed += 1;
    }
  };
  await Promise.all(Array.from({ length: connections }, sendInTurn));
  await pool.close();
  return { answered, failed };
};

export type Cost = { server_us: number; database_us: number; failed: number };

export const costOf = async (server: RunningServer, databasePid: number, work: Work): Promise<Cost> => {
  const serverPid = server.child.pid as number;
  const before = [cpuSeconds(serverPid, databasePid), cpuSeconds(databasePid)] as const;
  const { answered, failed } = await send(server.credentials.base_url, work, SECONDS);
  // Work behind the answers, such as the next context of an executor, belongs to them.
  await new Promise((resolve) => setTimeout(resolve, 200));
  const micros = (after: number, start: number): number => Math.round(((after - start) * 1e6) / Math.max(answered, 1));
  return {
    server_us: micros(cpuSeconds(serverPid, databasePid), before[0]),
    database_us: micros(cpuSeconds(databasePid), before[1]),
    failed,
  };
};

const padded = (order: object): string =>
  JSON.stringify({ ...order, note: 'n'.repeat(PROXY_BODY_BYTES - JSON.stringify({ ...order, note: '' }).length) });

export const worksOf = async (
  server: RunningServer,
  vault: FilledVault,
  destinationUrl: string,
): Promise<Record<string, Work>> => {
  const { api_key } = server.credentials;
  const headers = headersOf(api_key);
  const revealing = headersOf(vault.reveal_key);
  let made = CARDS;
  const newCard = (more?: object, request?: object) => JSON.stringify({ ...cardOf((made += 1), more), ...request });
  let read = 0;
  const nextId = (): string => vault.ids[(read += 7919) % vault.ids.length] as string;
  const hundred = () => JSON.stringify(Array.from({ length: HUNDRED }, () => `{{ ${nextId()} }}`));
  const proxied = { ...headers, 'svc-proxy-url': `${destinationUrl}/count` };
  const pathOf = async (code: string) => new URL(await makeReactor(server, code)).pathname;
  const trivial = await pathOf(TRIVIAL);
  const echo = await pathOf(ECHO);
  const smallArgs = JSON.stringify({ args: SMALL_ARGS });
  const largeArgs = JSON.stringify({ args: LARGE_ARGS });
  const body = padded({ amount: 1250 });
  return {
    store: { next: () => ({ path: '/tokens', headers, body: newCard({}) }) },
    'store-code': { next: () => ({ path: '/tokens', headers, body: newCard() }) },
    'store-deduplicated': {
      next: () => ({ path: '/tokens', headers, body: newCard({}, { deduplicate_token: true }) }),
      at_most_us: 400,
    },
    'read-masked': { next: () => ({ method: 'GET', path: `/tokens/${nextId()}`, headers }) },
    'read-raw': { next: () => ({ method: 'GET', path: `/tokens/${nextId()}`, headers: revealing }), at_most_us: 160 },
    'store-100': {
      next: () => ({
        path: '/tokenize',
        headers,
        body: `[${Array.from({ length: HUNDRED }, () => newCard({})).join()}]`,
      }),
      connections: FEW_CONNECTIONS,
    },
    'read-100': {
      next: () => ({ path: '/detokenize', headers: revealing, body: hundred() }),
      connections: FEW_CONNECTIONS,
    },
    'proxy-pass': { next: () => ({ path: '/proxy', headers: proxied, body }) },
    'proxy-header': {
      next: () => ({
        path: '/proxy',
        headers: { ...proxied, 'x-card': `{{ ${nextId()} | json: '$.number' }}` },
        body,
      }),
      at_most_us: 230,
    },
    'run-number': { next: () => ({ path: trivial, headers, body: smallArgs }) },
    'run-10kb': { next: () => ({ path: echo, headers, body: largeArgs }) },
  };
};

/** Every work in turn, five rounds; each figure is the median of its rounds, in microseconds of CPU per request. */
export const cpu = async () => {
  const destination = await startDestination();
  try {
    const server = await startServer(undefined, {
      EGRESS_PRIVATE_HOSTS: `${HOST}:${destination.port}`,
      NODE_EXTRA_CA_CERTS: destination.caPath,
    });
    try {
      const vault = await fillVault(server);
      const works = await worksOf(server, vault, destination.url);
      const databasePid = Number.parseInt(readFileSync(join(server.dataDir, 'pg/postmaster.pid'), 'utf8'), 10);
      for (const work of Object.values(works)) await send(server.credentials.base_url, work, WARM_SECONDS);
      const costs: Record<string, Cost[]> = {};
      for (let turn = 0; turn < ROUNDS; turn += 1)
        for (const [name, work] of Object.entries(works))
          (costs[name] ??= []).push(await costOf(server, databasePid, work));
      return Object.fromEntries(
        Object.entries(works).map(([name, { at_most_us }]) => {
          const of = (pick: (cost: Cost) => number): number => median((costs[name] as Cost[]).map(pick));
          const total = of(({ server_us, database_us }) => server_us + database_us);
          const parts = { server_us: of(({ server_us }) => server_us), database_us: of((cost) => cost.database_us) };
          const failed = (costs[name] as Cost[]).reduce((sum, cost) => sum + cost.failed, 0);
          return [name, { cpu_us: total, ...(at_most_us && { at_most_us }), ...parts, failed }];
        }),
      );
    } finally {
      await server.stop();
      remove(server.dataDir);
    }
  } finally {
    await destination.stop();
  }
};
