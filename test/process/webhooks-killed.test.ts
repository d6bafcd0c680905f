// Webhooks of a server that is killed between a change and its delivery: no event is lost, and a duplicate has the same `webhook-id`.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Webhook } from 'standardwebhooks';
import { expect, vi } from 'vitest';
import { testCa } from '../support/certificates.ts';
import { post, query, test } from '../support/place.ts';
import { type ServerProcess, untilReady } from '../support/process.ts';
import { startUpstream } from '../support/upstream.ts';
import { MASTER_KEY } from '../support/workers.ts';

/** A short form; `npm run drill:webhooks` runs 120 of them. */
const CYCLES = Number(process.env['DRILL_CYCLES'] ?? 2);
const CALLERS = 4;
/** Tokens that are answered before a kill, so that it comes under load. */
const ANSWERED_MIN = 8;
/** The kill comes up to so much later, and a receiver answers after a part of it: any step of a delivery can be under way. */
const SPREAD_MS = 150;

/** A delivery that was claimed by a process that died waits for the end of its lease. */
const EXPIRE_LEASES = `UPDATE webhook_deliveries SET due_at = now() WHERE state = 'waiting'`;
const COUNT_WAITING = `SELECT count(*)::int AS count FROM webhook_deliveries WHERE state = 'waiting'`;
const FIND_MADE = `SELECT id FROM tokens WHERE metadata ? 'drill' ORDER BY id`;

/** Makes tokens until the server is gone. */
const load = (server: ServerProcess): { answered: () => number; ended: Promise<unknown> } => {
  let answered = 0;
  const caller = async (): Promise<void> => {
    for (;;) {
      const json = { data: 'canary-4711', metadata: { drill: '1' } };
      const answer = await post(server, '/tokens', json).catch(() => undefined);
      if (answer?.status !== 201) return;
      await answer.arrayBuffer().catch(() => undefined);
      answered += 1;
    }
  };
  return { answered: () => answered, ended: Promise.all(Array.from({ length: CALLERS }, caller)) };
};

const namesOf = (headers: [string, string][]) =>
  Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value]));

test(
  `kill -9 before delivery, ${CYCLES} times: each event arrives, under one webhook-id`,
  { timeout: 60_000 * (CYCLES + 1) },
  async ({ dataDir, database, start }) => {
    let verifier: Webhook | undefined;
    /** Whether the published library accepts each message when it comes: it refuses old ones. */
    const verified: boolean[] = [];
    const upstream = await startUpstream({
      hosts: ['localhost'],
      answer: async (_, response, { headers, body }) => {
        try {
          verifier?.verify(body.toString(), namesOf(headers));
          verified.push(verifier !== undefined);
        } catch {
          verified.push(false);
        }
        await pause(Math.random() * SPREAD_MS);
        response.writeHead(204).end();
      },
    });
    try {
      const ca = join(dataDir, 'ca.pem');
      writeFileSync(ca, testCa);
      const serve = async (): Promise<ServerProcess> => {
        const server = await start({
          DATABASE_URL: database.url,
          MASTER_KEY,
          LOG_LEVEL: 'error',
          RATE_LIMIT: 'off',
          EGRESS_PRIVATE_HOSTS: `localhost:${upstream.port}`,
          NODE_EXTRA_CA_CERTS: ca,
        });
        await untilReady(server);
        return server;
      };
      let server = await serve();
      const url = `https://localhost:${upstream.port}/`;
      const made = await post(server, '/webhooks', { name: 'Drill', url, events: ['token.created'] });
      expect(made.status).toBe(201);
      verifier = new Webhook(((await made.json()) as { secret: string }).secret);
      let between = 0;
      for (let cycle = 0; cycle < CYCLES; cycle += 1) {
        const loading = load(server);
        while (loading.answered() < ANSWERED_MIN) await pause(5);
        await pause(Math.random() * SPREAD_MS);
        server.child.kill('SIGKILL');
        await server.exited;
        await loading.ended;
        const [{ count }] = await query(database.url, COUNT_WAITING);
        between += count;
        await query(database.url, EXPIRE_LEASES);
        server = await serve();
      }
      await query(database.url, EXPIRE_LEASES);
      const countWaiting = async () => (await query(database.url, COUNT_WAITING))[0].count;
      await vi.waitFor(async () => expect(await countWaiting()).toBe(0), { timeout: 60_000, interval: 100 });

      const idsOf = new Map<string, Set<string>>();
      for (const { headers, body } of upstream.received) {
        const event = JSON.parse(body.toString()) as { id: string; data: { id: string } };
        expect(namesOf(headers)['webhook-id']).toBe(event.id);
        expect(body.toString()).not.toContain('canary');
        idsOf.set(event.data.id, (idsOf.get(event.data.id) ?? new Set()).add(event.id));
      }
      expect(verified.filter((isGood) => !isGood)).toEqual([]);
      const tokens: string[] = (await query(database.url, FIND_MADE)).map(({ id }) => id);
      expect([...idsOf.keys()].toSorted()).toEqual(tokens);
      expect([...idsOf.values()].filter(({ size }) => size > 1)).toEqual([]);
      expect(between).toBeGreaterThan(0);
      const duplicates = upstream.received.length - tokens.length;
      console.log(JSON.stringify({ kills: CYCLES, events: tokens.length, undelivered_at_kills: between, duplicates }));
    } finally {
      await upstream.close();
    }
  },
);
