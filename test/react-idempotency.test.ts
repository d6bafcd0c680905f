// Idempotency keys of invocations: code that made a call is not run again for a repeated request;
// code that made none is (docs/decisions/0014).
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, startServerBefore, type TestServer, upstreamOn } from './support/server.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';

const WALL_MS = 1500;
/** For a run that others come to while it waits: on a busy machine too it is not over by then. */
const LONG_WALL_MS = 20_000;

let upstream: Upstream;
let server: TestServer;
/** Requests to these paths are answered once this is called. */
const held = new Map<string, () => void>();

const startWith = (wallMs: number): Promise<TestServer> =>
  startServerBefore(upstreamOn(upstream.port), { SANDBOX_WALL_MS: String(wallMs), SANDBOX_CPU_MS: '500' });

beforeAll(async () => {
  upstream = await startUpstream({
    answer: async ({ url = '' }, response) => {
      if (url.startsWith('/held/') && !held.has(url)) await new Promise<void>((resolve) => held.set(url, resolve));
      response.end('charged');
    },
  });
  server = await startWith(WALL_MS);
});
afterAll(async () => {
  for (const release of held.values()) release();
  await server.close();
  await upstream.close();
});
afterEach(() => {
  server.clock.offsetMs = 0;
});

let count = 0;
const newName = (what: string) => `${what}-${(count += 1)}`;

const make = async (path: string, json: object, on = server): Promise<string> => {
  const answer = await on.request('POST', path, { json });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};

/** A reactor of a function's body, which has `args`, `svc`, `sdk`, and `charge()` to call out with. */
const newReactor = async (body: string, more: object = {}, on = server): Promise<string> => {
  const code = `
const sdk = require('@svc/reactor-formulas-sdk');
module.exports = async ({ args, svc }) => {
  const charge = () => fetch(args.url, { method: 'POST', body: 'charge' });
  ${body}
};`;
  const formula = await make('/reactor-formulas', { name: 'Charges', type: 'private', code }, on);
  return make('/reactors', { name: 'Charges', formula: { id: formula }, ...more }, on);
};

/** An invocation with an idempotency key. */
const react = (reactor: string, key: string, args: object, on = server): Promise<Answer> =>
  on.request('POST', `/reactors/${reactor}/react`, { json: { args }, headers: { 'svc-idempotency-key': key } });

const urlOf = (path: string) => `https://upstream.test:${upstream.port}${path}`;
const timesCalled = (path: string) => upstream.received.filter(({ url }) => url === path).length;
const isReplay = ({ headers }: Answer) => headers.get('svc-idempotent-replayed') === 'true';

/** What the second answer must have as the first one had it, or lack. */
const sameHeaders = ['content-type', 'location', 'retry-after', 'www-authenticate', 'x-decline'];

const expectReplay = (first: Answer, second: Answer): void => {
  expect(isReplay(first)).toBe(false);
  expect(isReplay(second), second.text).toBe(true);
  expect([second.status, second.text]).toEqual([first.status, first.text]);
  for (const name of sameHeaders) expect(second.headers.get(name), name).toBe(first.headers.get(name));
};

/** How runs end, what their callers get, and a header of it. */
const failures: [ending: string, body: string, status: number, header?: [name: string, value: string]][] = [
  ['throws', `throw new Error('after the charge')`, 500, ['content-type', 'application/problem+json']],
  ['does not end', 'await new Promise(() => {})', 408],
  ['takes all of its CPU time', 'for (;;);', 408],
  [
    'answers 402 of its own',
    `throw new sdk.CustomHttpResponseError({ status: 402, headers: { 'X-Decline': 'funds' }, body: { declined: true } })`,
    402,
    ['x-decline', 'funds'],
  ],
  [
    'sends its caller elsewhere',
    `throw new sdk.CustomHttpResponseError({ status: 302, headers: { Location: 'https://shop.test/3ds' } })`,
    302,
    ['location', 'https://shop.test/3ds'],
  ],
  ['answers a text', `throw new sdk.CustomHttpResponseError({ status: 500, body: 'no' })`, 500],
  ['has an invalid payment method', 'throw new sdk.InvalidPaymentMethodError()', 402],
  ['is over a rate', 'throw new sdk.RateLimitError()', 429, ['retry-after', '1']],
  ['may not', 'throw new sdk.AuthenticationError()', 401, ['www-authenticate', 'ApiKey header="SVC-API-KEY"']],
  ['returns what is no result', 'return 7', 500],
  ['returns what is no token', `return { tokenize: { type: 'card', data: { number: '1' } } }`, 400],
];

describe('a repeated invocation of code that called out', () => {
  test.each(failures)(
    'and then %s, is given the answer again, and nothing is called',
    async (_, body, status, header) => {
      const reactor = await newReactor(`await charge(); ${body}`);
      const path = newName('/charge');
      const key = newName('called');
      const first = await react(reactor, key, { url: urlOf(path) });
      expect([first.status, timesCalled(path)], first.text).toEqual([status, 1]);
      if (header) expect(first.headers.get(header[0])).toContain(header[1]);
      expectReplay(first, await react(reactor, key, { url: urlOf(path) }));
      expectReplay(first, await react(reactor, key, { url: urlOf(path) }));
      expect(timesCalled(path)).toBe(1);
      // A new key is a new invocation.
      const again = await react(reactor, newName('called'), { url: urlOf(path) });
      expect([again.status, isReplay(again), timesCalled(path)]).toEqual([status, false, 2]);
    },
  );

  test('and whose tokens could not be written, is given that failure again', async () => {
    const id = newName('taken');
    await make('/tokens', { id, data: 'x' });
    const reactor = await newReactor(`await charge(); return { tokenize: { type: 'token', id: args.id, data: 'y' } };`);
    const path = newName('/charge');
    const key = newName('conflict');
    const first = await react(reactor, key, { url: urlOf(path), id });
    expect([first.status, timesCalled(path)], first.text).toEqual([409, 1]);
    // The token is out of the way now: a second run would succeed.
    expect((await server.request('DELETE', `/tokens/${id}`)).status).toBe(204);
    expectReplay(first, await react(reactor, key, { url: urlOf(path), id }));
    expect(timesCalled(path)).toBe(1);
    expect((await server.request('GET', `/tokens/${id}`)).status).toBe(404);
  });

  test('by svc, and then throws, is given the answer again', async () => {
    const { application_id } = await server.newKey(server.tenant, { permissions: ['token:create'] });
    const reactor = await newReactor(`await svc.tokenize('made'); throw new Error('after it');`, {
      application: { id: application_id },
    });
    const countTokens = async () => (await server.sql('SELECT count(*)::int AS count FROM tokens'))[0].count;
    const before = await countTokens();
    const key = newName('svc');
    const first = await react(reactor, key, {});
    expect([first.status, await countTokens()], first.text).toEqual([500, before + 1]);
    expectReplay(first, await react(reactor, key, {}));
    expect(await countTokens()).toBe(before + 1);
  });

  test('and succeeds, is given its result and its tokens again', async () => {
    const reactor = await newReactor(
      `const answer = await charge(); return { raw: await answer.text(), tokenize: { card: 'x' } };`,
    );
    const path = newName('/charge');
    const key = newName('done');
    const first = await react(reactor, key, { url: urlOf(path) });
    expect([first.status, first.body?.raw], first.text).toEqual([200, 'charged']);
    expectReplay(first, await react(reactor, key, { url: urlOf(path) }));
    expect(timesCalled(path)).toBe(1);
  });

  test('gets 409 once the kept failure has expired: it is not run again', async () => {
    const reactor = await newReactor(`await charge(); throw new Error('after the charge');`);
    const path = newName('/charge');
    const key = newName('late');
    expect((await react(reactor, key, { url: urlOf(path) })).status).toBe(500);
    server.clock.offsetMs = server.ctx.config.cvcTtlMs + 1000;
    const late = await react(reactor, key, { url: urlOf(path) });
    expect([late.status, timesCalled(path)], late.text).toEqual([409, 1]);
  });

  test('keeps its failure sealed', async () => {
    const words = newName('words-of-the-code');
    const reactor = await newReactor(`await charge(); throw new Error(args.words);`);
    const first = await react(reactor, newName('sealed'), { url: urlOf(newName('/charge')), words });
    expect(first.text).toContain(words);
    const rows = await server.sql('SELECT sealed FROM idempotency_keys WHERE sealed IS NOT NULL');
    expect(rows.length).toBeGreaterThan(0);
    for (const { sealed } of rows) expect(sealed.includes(words)).toBe(false);
  });
});

describe('a repeated invocation of code that called nothing', () => {
  test.each(failures)('and %s, is run again', async (_, body, status) => {
    const reactor = await newReactor(`if (args.fails) { ${body} } return { raw: 'ran' };`);
    const key = newName('quiet');
    for (let times = 0; times < 2; times += 1) {
      const failed = await react(reactor, key, { fails: true });
      expect([failed.status, isReplay(failed)], failed.text).toEqual([status, false]);
    }
    const ran = await react(reactor, key, { fails: false });
    expect([ran.status, ran.body?.raw, isReplay(ran)], ran.text).toEqual([200, 'ran', false]);
    expectReplay(ran, await react(reactor, key, { fails: false }));
  });
});

test('a claim lasts as long as three runs and 90 seconds, and a later return keeps nothing', async () => {
  const patient = await startWith(LONG_WALL_MS);
  const path = newName('/held/charge');
  let first: Promise<Answer> | undefined;
  try {
    const reactor = await newReactor(`await charge(); return { raw: args.turn };`, {}, patient);
    const key = newName('claimed');
    const claimedMs = Date.now();
    patient.clock.stoppedAtMs = claimedMs;
    const invoke = (turn: string) => react(reactor, key, { url: urlOf(path), turn }, patient);
    first = invoke('first');
    await expect.poll(() => held.has(path), { timeout: 10_000 }).toBe(true);
    const endMs = claimedMs + 3 * LONG_WALL_MS + 90_000;
    patient.clock.stoppedAtMs = endMs - 1;
    expect((await invoke('second')).status).toBe(409);
    expect(timesCalled(path)).toBe(1);
    patient.clock.stoppedAtMs = endMs;
    const second = await invoke('second');
    expect([second.status, second.body?.raw, isReplay(second)], second.text).toEqual([200, 'second', false]);
    held.get(path)?.();
    expect((await first).body?.raw).toBe('first');
    expectReplay(second, await invoke('second'));
  } finally {
    held.get(path)?.();
    await first;
    await patient.close();
  }
});
