// A public key is in the hands of everybody: no holder learns from an idempotency key what another one has sent.
import { request as sendRequest } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startServer, type TestServer, type TestTenant } from '../support/server.ts';

const SHOP = 'https://shop.example.com';
const VICTIM = '127.0.0.2';
const ATTACKER = '127.0.0.3';

const ssn = (value: string) => ({ type: 'social_security_number', data: value });
const SENT = ssn('123-45-6789');
const guesses = Array.from({ length: 30 }, (_, at) => ssn(`123-${10 + at}-6789`)).filter(
  ({ data }) => data !== SENT.data,
);

let server: TestServer;
let tenant: TestTenant;
beforeAll(async () => {
  server = await startServer();
  tenant = server.tenant;
});
afterAll(() => server.close());

type Reply = { status: number; id: string | undefined; isReplay: boolean; left: string | undefined };

/** A create from an address of this machine. */
const create = (
  from: string,
  {
    key,
    body = SENT,
    name = 'order-1001',
    path = '/tokens',
  }: { key: string; body?: unknown; name?: string; path?: string },
): Promise<Reply> =>
  new Promise((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      'svc-api-key': key,
      'svc-idempotency-key': name,
      origin: SHOP,
    };
    const sent = sendRequest(server.base_url + path, { method: 'POST', headers, localAddress: from }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          id: JSON.parse(Buffer.concat(chunks).toString()).id,
          isReplay: response.headers['svc-idempotent-replayed'] === 'true',
          left: /;r=(\d+)/.exec(String(response.headers['ratelimit']))?.[1],
        }),
      );
    });
    sent.on('error', reject);
    sent.end(JSON.stringify(body));
  });

const newPublicKey = async (creates_per_minute: number): Promise<string> => {
  const json = {
    name: 'P',
    type: 'public',
    permissions: ['token:create'],
    allowed_origins: [SHOP],
    creates_per_minute,
  };
  return (await server.request('POST', '/applications', { json })).body.key;
};

const newSessionKey = async (): Promise<string> => {
  const json = { allowed_origins: [SHOP], types: ['social_security_number'], max_tokens: 100 };
  return (await server.request('POST', '/sessions', { json })).body.session_key;
};

const countTokens = async (): Promise<number> =>
  (await server.sql('SELECT count(*)::int AS n FROM tokens WHERE tenant_id = $1', [tenant.tenant_id]))[0].n;

test.each([
  ['a public application', () => newPublicKey(1_000)],
  ['a session', newSessionKey],
])('the key of %s gives no replay to another address', async (_, newKey) => {
  const key = await newKey();
  const first = await create(VICTIM, { key });
  expect(first).toMatchObject({ status: 201, isReplay: false });
  const right = await create(ATTACKER, { key });
  expect(right).toMatchObject({ status: 201, isReplay: false });
  expect(right.id).not.toBe(first.id);
  // Wrong guesses look like the right one.
  for (const body of guesses.slice(0, 5)) {
    const name = 'order-1002';
    expect(await create(VICTIM, { key, name: body.data })).toMatchObject({ status: 201 });
    expect(await create(ATTACKER, { key, name: body.data, body })).toMatchObject({ status: 201, isReplay: false });
    expect(await create(ATTACKER, { key, name, body: guesses[0] })).toMatchObject({ status: 201 });
  }
  expect(await create(VICTIM, { key })).toMatchObject({ status: 201, isReplay: true, id: first.id });
});

test('replays, mismatches and conflicts from one address count as creates do', async () => {
  const key = await newPublicKey(8);
  const first = await create(VICTIM, { key });
  expect(first).toMatchObject({ status: 201, left: '7' });
  const before = await countTokens();
  expect(await create(VICTIM, { key })).toMatchObject({ status: 201, isReplay: true, id: first.id, left: '6' });
  expect(await create(VICTIM, { key, body: guesses[0] })).toMatchObject({ status: 422, left: '5' });
  expect(await create(VICTIM, { key, path: '/tokenize' })).toMatchObject({ status: 422, left: '4' });
  const all = await Promise.all(guesses.map((body) => create(VICTIM, { key, body })));
  expect(all.filter(({ status }) => status === 422)).toHaveLength(4);
  expect(all.filter(({ status }) => status === 429)).toHaveLength(guesses.length - 4);
  // The right guess, and the client itself, learn no more than the others.
  expect(await create(VICTIM, { key })).toMatchObject({ status: 429, isReplay: false, id: undefined });
  expect(await countTokens()).toBe(before);
});

test('requests at once with one key make one token for each address', async () => {
  const key = await newPublicKey(1_000);
  const sent = [VICTIM, ATTACKER].flatMap((from) => Array.from({ length: 5 }, () => create(from, { key })));
  const answers = await Promise.all(sent);
  expect(answers.every(({ status }) => status === 201 || status === 409)).toBe(true);
  expect(new Set(answers.flatMap(({ id }) => id ?? [])).size).toBe(2);
});

test('a private key has one claim for all of the servers that hold it', async () => {
  const { api_key: key } = tenant;
  const first = await create(VICTIM, { key, name: 'private' });
  expect(await create(ATTACKER, { key, name: 'private' })).toMatchObject({ isReplay: true, id: first.id });
});
