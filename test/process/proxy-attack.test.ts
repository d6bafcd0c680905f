// Attacks on the proxy that once worked.
import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { watchMemory } from '../support/memory.ts';
import { certificateFor } from '../support/certificates.ts';
import {
  codeOf,
  makeReactor,
  react,
  type SharedReactorServer,
  tokenOf,
  useReactorServer,
} from '../support/reactors.ts';
import { askOnWire, askProxy, makeProxy, problemIn } from '../support/stored-proxies.ts';

let fixture: SharedReactorServer;
beforeAll(async () => {
  fixture = await useReactorServer();
});
afterAll(() => fixture.close());

const MEGABYTE = 1024 * 1024;

const pemOf = ({ privateKey }: { privateKey: KeyObject }): string =>
  privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();

test('an answer nested 100,000 deep is a call of code that failed, and the server lives', async () => {
  const rejections: unknown[] = [];
  const note = (error: unknown) => rejections.push(error);
  process.on('unhandledRejection', note);
  fixture.routes.set('/deep', (_, response) => {
    response.setHeader('content-type', 'application/json');
    response.end('['.repeat(100_000) + ']'.repeat(100_000));
  });
  const application = await fixture.server.newKey(fixture.server.tenant, { permissions: ['token:use'] });
  const code =
    codeOf(`try { return { raw: await svc.proxy.get({ path: '/deep', headers: { 'svc-proxy-url': args.url } }) }; }
    catch (error) { return { raw: error.code }; }`);
  const answer = await react(fixture.server, await makeReactor(fixture.server, { code, application }), {
    url: fixture.url,
  });
  process.off('unhandledRejection', note);
  expect([answer.status, answer.body?.raw], answer.text).toEqual([200, 'DECODE']);
  expect(rejections).toEqual([]);
});

test('a thousand expressions under a name of megabytes take no memory for each', async () => {
  const { key } = await makeProxy(fixture.server, { destination_url: fixture.url, require_auth: false });
  const slots = Array.from({ length: 1000 }, () => '{{ id }}');
  const body = JSON.stringify({ ['n'.repeat(8 * MEGABYTE)]: slots });
  const memory = watchMemory({ megabytes: 500 });
  const answer = await fixture.server.request('POST', '/proxy', {
    key: null,
    headers: { 'svc-proxy-key': key, 'content-type': 'application/json' },
    body,
  });
  expect(answer.status, answer.text).toBe(403);
  memory.end();
});

test('what values make of a small body counts against the memory of its tenant', async () => {
  const own = await fixture.server.newTenant();
  const id = await tokenOf(fixture.server, 'v'.repeat(900_000), {}, own.api_key);
  const { promise: mayAnswer, resolve: answerAll } = Promise.withResolvers<void>();
  fixture.routes.set('/held', async (_, response) => {
    await mayAnswer;
    response.end('ok');
  });
  const send = () =>
    fixture.server.request('POST', '/proxy/held', {
      key: own.api_key,
      json: Array.from({ length: 11 }, () => `{{ ${id} }}`),
      headers: { 'svc-proxy-url': fixture.url },
    });
  const answers = Array.from({ length: 8 }, send);
  const settled: number[] = [];
  for (const answer of answers) void answer.then(({ status }) => settled.push(status));
  // Those for which there is no room are told so while the others wait.
  while (settled.length < answers.length - 3) await new Promise((resolve) => setTimeout(resolve, 20));
  answerAll();
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(3);
  expect((await send()).status).toBe(200);
});

/** Of two known primes, because random ones take ten seconds. */
const largeRsaKey = (): string => {
  const [p, q, e] = [2n ** 2203n - 1n, 2n ** 2281n - 1n, 65_537n];
  const inverse = (of: bigint, modulus: bigint): bigint => {
    let [[rest, factor], [next, nextFactor]] = [
      [of, 1n],
      [modulus, 0n],
    ];
    while (next > 0n) {
      const times = rest / next;
      [rest, next] = [next, rest - times * next];
      [factor, nextFactor] = [nextFactor, factor - times * nextFactor];
    }
    return ((factor % modulus) + modulus) % modulus;
  };
  const d = inverse(e, (p - 1n) * (q - 1n));
  const parts = { n: p * q, e, d, p, q, dp: d % (p - 1n), dq: d % (q - 1n), qi: inverse(q, p) };
  const encode = (number: bigint): string => {
    const hex = number.toString(16);
    return Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex').toString('base64url');
  };
  const jwk = Object.fromEntries(Object.entries(parts).map(([name, number]) => [name, encode(number)]));
  return pemOf({ privateKey: createPrivateKey({ key: { kty: 'RSA', ...jwk }, format: 'jwk' }) });
};

test.each([
  ['of a curve that few know', () => pemOf(generateKeyPairSync('ec', { namedCurve: 'secp256k1' }))],
  ['of RSA with 4,484 bits', largeRsaKey],
  ['of Ed448', () => pemOf(generateKeyPairSync('ed448'))],
])('a client key that takes long to sign is refused when it is saved: %s', async (_, makeKey) => {
  const { cert } = certificateFor('client.test');
  const json = {
    name: 'Slow',
    destination_url: fixture.url,
    client_certificate: { certificate: cert, private_key: makeKey() },
  };
  const answer = await fixture.server.request('POST', '/proxies', { json });
  expect(answer.status, answer.text).toBe(400);
  expect(answer.body.errors['client_certificate.private_key'].join()).toContain('RSA with at most 4096 bits');
});

test.each(['navigate', 'no-cors', 'websocket'])('a browser gets no answer for %s', async (mode) => {
  const before = fixture.upstream.received.length;
  const headers = { 'svc-proxy-url': fixture.url, 'sec-fetch-mode': mode };
  const answer = await askOnWire(fixture.server, 'GET', '/proxy', { headers });
  expect([answer.status, problemIn(answer).status]).toEqual([403, 403]);
  expect(fixture.upstream.received).toHaveLength(before);
});

test('JSON in a charset that is not read never passes a request transform as a text', async () => {
  const code = codeOf(
    'if (args.body.amount > 100) throw new Error("no"); return { body: args.body, headers: args.headers };',
  );
  const proxy = await makeProxy(fixture.server, { destination_url: fixture.url, request_transform: { code } });
  const before = fixture.upstream.received.length;
  for (const [type, status] of [
    ['application/json; charset=utf-16', 400],
    ['application/problem+json; charset=x', 415],
  ] as const)
    expect(
      (await askProxy(fixture.server, proxy, { headers: { 'content-type': type }, body: '{"amount":5000}' } as never))
        .status,
    ).toBe(status);
  // What is in UTF-16 is read by the code.
  for (const type of ['application/json; charset=utf-16', 'application/json']) {
    const headers = { 'content-type': type };
    const body = Buffer.from('{"amount":5000}', 'utf16le');
    expect((await askProxy(fixture.server, proxy, { headers, body } as never)).status).toBe(500);
  }
  expect(fixture.upstream.received).toHaveLength(before);
});

test('an application that is narrowed to hosts makes no proxy that leads elsewhere', async () => {
  const narrowed = await fixture.server.request('POST', '/applications', {
    json: { name: 'Narrow', permissions: ['proxy:create'], allowed_hosts: ['good.example'] },
  });
  expect(narrowed.status, narrowed.text).toBe(201);
  const make = (more: object) =>
    fixture.server.request('POST', '/proxies', { key: narrowed.body.key, json: { name: 'Elsewhere', ...more } });
  const elsewhere = { destination_url: 'https://evil.example' };
  expect((await make(elsewhere)).status).toBe(403);
  expect((await make({ ...elsewhere, allowed_hosts: ['evil.example'] })).status).toBe(403);
  expect((await make({ destination_url: 'https://good.example' })).status).toBe(403);
  expect((await make({ destination_url: 'https://good.example', allowed_hosts: ['good.example'] })).status).toBe(201);
});
