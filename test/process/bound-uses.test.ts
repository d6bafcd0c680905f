// A number of uses holds over the workers of a server, and over kill -9 between the log row and the request.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import { testCa } from '../support/certificates.ts';
import { query } from '../support/place.ts';
import { untilReady, workersOf } from '../support/process.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { ask, jsonOf, MASTER_KEY, test, untilListening } from '../support/workers.ts';

const USES = 3;
const REQUESTS = 50;

const environmentOf = (dataDir: string, url: string, { port }: Upstream): Record<string, string> => {
  const ca = join(dataDir, 'ca.pem');
  writeFileSync(ca, testCa);
  return {
    DATABASE_URL: url,
    MASTER_KEY,
    EGRESS_PRIVATE_HOSTS: `localhost:${port}`,
    NODE_EXTRA_CA_CERTS: ca,
    SANDBOX_ALLOW_WEAK: '1',
  };
};

test(
  '50 requests at once on two workers with max_uses 3: exactly 3 are sent',
  { timeout: 120_000 },
  async ({ dataDir, database, startWorkers }) => {
    const upstream = await startUpstream({ hosts: ['localhost'] });
    try {
      const server = await startWorkers(environmentOf(dataDir, database.url, upstream));
      await untilListening(server);
      expect(workersOf(server)).toHaveLength(2);
      const { api_key } = server.credentials();
      const made = await jsonOf(await ask(server, api_key, '/tokens', { data: 'value', bound_to: { max_uses: USES } }));
      const headers = { 'svc-proxy-url': `https://localhost:${upstream.port}` };
      const send = async () => (await ask(server, api_key, '/proxy', { a: `{{ ${made.id} }}` }, headers)).status;
      const statuses = await Promise.all(Array.from({ length: REQUESTS }, send));
      expect(statuses.toSorted()).toEqual([...Array(USES).fill(200), ...Array(REQUESTS - USES).fill(403)]);
      expect(upstream.received).toHaveLength(USES);
      expect((await jsonOf(await ask(server, api_key, `/tokens/${made.id}`))).uses).toBe(USES);
    } finally {
      await upstream.close();
    }
  },
);

test(
  'kill -9 between the log row and the request: the use stays counted, nothing is sent',
  { timeout: 120_000 },
  async ({ dataDir, database, start }) => {
    const upstream = await startUpstream({ hosts: ['localhost'] });
    try {
      const environment = environmentOf(dataDir, database.url, upstream);
      const killed = await start(environment);
      await untilReady(killed);
      const { api_key } = killed.credentials();
      // The transform waits, and runs after the log row is written and before the request is sent.
      const code = `module.exports = async ({ args }) => { await new Promise((done) => setTimeout(done, 20_000)); return args; };`;
      const destination_url = `https://localhost:${upstream.port}`;
      const proxy = await jsonOf(
        await ask(killed, api_key, '/proxies', { name: 'Waits', destination_url, request_transform: { code } }),
      );
      const bound_to = { max_uses: 1, proxies: [proxy.id] };
      const made = await jsonOf(await ask(killed, api_key, '/tokens', { data: 'value', bound_to }));
      const send = (server: typeof killed) =>
        ask(server, api_key, '/proxy', { a: `{{ ${made.id} }}` }, { 'svc-proxy-key': proxy.key });
      const lost = send(killed).catch(() => 'lost');
      const countUses = async () => (await query(database.url, 'SELECT uses FROM token_uses'))[0]?.uses;
      await vi.waitFor(async () => expect(await countUses()).toBe(1), { timeout: 20_000 });
      killed.child.kill('SIGKILL');
      expect(await lost).toBe('lost');
      await killed.exited;

      const again = await start(environment);
      await untilReady(again);
      const answer = await send(again);
      expect(answer.status).toBe(403);
      expect(Object.keys((await jsonOf(answer)).proxy_error.errors)).toEqual(['bound_to.max_uses']);
      expect(await countUses()).toBe(1);
      expect(upstream.received).toEqual([]);
    } finally {
      await upstream.close();
    }
  },
);
