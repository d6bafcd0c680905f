// Destinations that answer after minutes, and a server that is told to stop meanwhile: it waits for them. All begin at once.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe } from 'vitest';
import { testCa } from '../support/certificates.ts';
import { post, test } from '../support/place.ts';
import { untilReady } from '../support/process.ts';
import { codeOf } from '../support/reactors.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

const ANSWER_MS = 110_000;

/** `/late` has its response after ANSWER_MS; that of any other path begins at once, and does not end. */
const startSlow = (): Promise<Upstream> =>
  startUpstream({
    hosts: ['localhost'],
    answer: ({ url }, response) => {
      response.setHeader('content-type', 'text/plain');
      if (url === '/late') setTimeout(() => response.end('late'), ANSWER_MS);
      else response.write('begun');
    },
  });

describe('a response after 110 s', () => {
  test(
    'arrives by proxy, fetch and svc.proxy from a server that stops',
    { timeout: 300_000 },
    async ({ expect, dataDir, database, start }) => {
      const upstream = await startSlow();
      try {
        const ca = join(dataDir, 'ca.pem');
        writeFileSync(ca, testCa);
        const server = await start({
          DATABASE_URL: database.url,
          EGRESS_PRIVATE_HOSTS: `localhost:${upstream.port}`,
          NODE_EXTRA_CA_CERTS: ca,
          SANDBOX_WALL_MS: '150000',
        });
        await untilReady(server);
        const destination_url = `https://localhost:${upstream.port}`;
        const made = async (path: string, json: object): Promise<{ id: string; key: string }> => {
          const answer = await post(server, path, json);
          expect(answer.status).toBe(201);
          return (await answer.json()) as { id: string; key: string };
        };
        const marking = { code: codeOf(`return { body: args.body + ' and seen', headers: args.headers };`) };
        const makeProxy = (more: object) => made('/proxies', { name: 'Slow', destination_url, ...more });
        const patient = await makeProxy({ timeout_seconds: 120, response_transform: marking });
        const usual = await makeProxy({});
        const quick = await makeProxy({ timeout_seconds: 1 });
        const reading = await makeProxy({ timeout_seconds: 1, response_transform: marking });
        const application = await made('/applications', { name: 'Code', type: 'private', permissions: ['token:use'] });
        const makeReactor = async (body: string) => {
          const formula = await made('/reactor-formulas', { name: 'Waits', type: 'private', code: codeOf(body) });
          const { id } = formula;
          return made('/reactors', { name: 'Waits', formula: { id }, application: { id: application.id } });
        };
        const fetching = await makeReactor(`return { raw: await (await fetch('${destination_url}/late')).text() };`);
        const calling = await makeReactor(
          `return { raw: (await svc.proxy.post({ path: '/late', headers: { 'SVC-PROXY-KEY': '${patient.key}' } })).body };`,
        );

        const timed = async (work: Promise<Response>) => {
          const fromMs = performance.now();
          const answer = await work;
          const text = await answer.text().catch(() => 'broken off');
          return { status: answer.status, text, seconds: (performance.now() - fromMs) / 1000 };
        };
        const pass = ({ key }: { key: string }, path: string) =>
          timed(post(server, `/proxy${path}`, {}, { 'svc-proxy-key': key }));
        const react = ({ id }: { id: string }) => timed(post(server, `/reactors/${id}/react`, {}));
        const begun = Promise.all([
          pass(patient, '/late'),
          react(fetching),
          react(calling),
          pass(usual, '/late'),
          pass(quick, '/endless'),
          pass(reading, '/endless'),
        ]);
        await expect.poll(() => upstream.received.length, { timeout: 60_000 }).toBe(6);
        server.child.kill('SIGTERM');
        const [proxied, fetched, called, given, cut, unread] = await begun;
        for (const { seconds } of [proxied, fetched, called]) expect(seconds).toBeGreaterThan(ANSWER_MS / 1000 - 1);
        expect([proxied.status, proxied.text]).toEqual([200, 'late and seen']);
        expect([fetched.status, JSON.parse(fetched.text).raw]).toEqual([200, 'late']);
        expect([called.status, JSON.parse(called.text).raw]).toEqual([200, 'late and seen']);
        expect(given.status).toBe(504);
        expect(given.seconds).toBeGreaterThan(24.9);
        expect(given.seconds).toBeLessThan(ANSWER_MS / 1000);
        // The head was there in time. The body has half a minute more.
        expect([cut.status, cut.text]).toEqual([200, 'broken off']);
        expect(unread.status).toBe(504);
        for (const { seconds } of [cut, unread]) {
          expect(seconds).toBeGreaterThan(30.9);
          expect(seconds).toBeLessThan(ANSWER_MS / 1000);
        }
        expect(await server.exited).toBe(0);
      } finally {
        await upstream.close();
      }
    },
  );
});
