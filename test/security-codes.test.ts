// The security code of a stored card, collected again: sessions for one card, their key, and the page for redirects.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { brandOf } from '../packages/fields/frame/brands.ts';
import { codeLengthOf } from '../src/modules/tokens/security-codes.ts';
import { type Answer, type SharedServer, useServer } from './support/server.ts';
import { withoutDrawn } from './support/text.ts';

const SHOP = 'https://shop.example.com';
const NUMBER = '4242424242424242';
const AMEX = '378282246310005';

let server: SharedServer;
let reader: string;
beforeAll(async () => {
  server = await useServer();
  const rule = { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] };
  reader = (await server.newKey(server.tenant, { rules: [rule] })).api_key;
});

type Session = { id: string; session_key: string; collect_url: string; [name: string]: any };

const makeCard = async (data: object = {}, more: object = {}): Promise<string> => {
  const json = {
    type: 'card',
    data: { number: NUMBER, expiration_month: 12, expiration_year: 2040, ...data },
    ...more,
  };
  const made = await server.request('POST', '/tokens', { json });
  expect(made.status, made.text).toBe(201);
  return made.body.id;
};

const ask = (token_id: unknown, more: object = {}, key?: string): Promise<Answer> =>
  server.request('POST', '/sessions', {
    json: { token_id, allowed_origins: [SHOP], types: ['cvc'], ...more },
    ...(key === undefined ? {} : { key }),
  });

const newSession = async (token_id: string, more: object = {}, key?: string): Promise<Session> => {
  const made = await ask(token_id, more, key);
  expect(made.status, made.text).toBe(201);
  return made.body;
};

const save = (
  { id, session_key }: Pick<Session, 'id' | 'session_key'>,
  json: unknown = { cvc: '737' },
  headers: Record<string, string> = {},
): Promise<Answer> =>
  server.request('POST', `/sessions/${id}/cvc`, { key: session_key, json, headers: { origin: SHOP, ...headers } });

const codeOf = async (id: string): Promise<string | undefined> =>
  (await server.request('GET', `/tokens/${id}`, { key: reader })).body.data.cvc;

const newMaker = async (json: object): Promise<{ id: string; key: string }> => {
  const made = await server.request('POST', '/applications', { json: { name: 'Maker', type: 'private', ...json } });
  expect(made.status, made.text).toBe(201);
  return made.body;
};

const errorsOf = ({ status, body }: Answer): [number, string[]] => [status, Object.keys(body.errors ?? {})];

describe('a session for one card', () => {
  test('has three tries by default, and says which card it is for', async () => {
    const id = await makeCard();
    const session = await newSession(id);
    expect(session).toMatchObject({ types: ['cvc'], token_id: id, max_tokens: 3, tokens: [] });
    const read = (await server.request('GET', `/sessions/${session.id}`)).body;
    expect(read).toMatchObject({ types: ['cvc'], token_id: id, max_tokens: 3, tokens: [] });
    expect(await newSession(id, { max_tokens: 1 })).toMatchObject({ max_tokens: 1 });
  });

  test.each<[string, object, string]>([
    ['another type beside it', { types: ['cvc', 'card'] }, 'types'],
    ['the type of a token', { types: ['card'] }, 'types'],
    ['a container', { containers: ['/pci/'] }, 'containers'],
    ['metadata', { metadata: { a: 'b' } }, 'metadata'],
    ['four tries', { max_tokens: 4 }, 'max_tokens'],
    ['no try', { max_tokens: 0 }, 'max_tokens'],
    ['an id that is none', { token_id: 5 }, 'token_id'],
    ['no id', { token_id: null }, 'types'],
  ])('with %s is a 400 that names it', async (_, more, path) => {
    expect(errorsOf(await ask(await makeCard(), more))).toEqual([400, [path]]);
  });

  test('for a token that is no card is a 400; an unknown one and one of another tenant are a 404', async () => {
    const made = await server.request('POST', '/tokens', { json: { type: 'card_number', data: NUMBER } });
    expect(errorsOf(await ask(made.body.id))).toEqual([400, ['token_id']]);
    const other = await server.newTenant();
    const foreign = await server.request('POST', '/tokens', {
      key: other.api_key,
      json: { type: 'card', data: { number: NUMBER } },
    });
    const answers = [await ask(foreign.body.id), await ask(randomUUID())];
    expect(answers.map(({ status, body }) => [status, body.detail])).toEqual([
      [404, 'The token was not found.'],
      [404, 'The token was not found.'],
    ]);
  });

  test('needs session:create, and token:update on this card', async () => {
    const id = await makeCard();
    const rule = { priority: 1, container: '/general/', transform: 'mask', permissions: ['token:update'] };
    const keys = [
      await newMaker({ permissions: ['session:create', 'token:create'] }),
      await newMaker({ permissions: ['token:update'] }),
      await newMaker({ permissions: ['session:create'], rules: [rule] }),
    ];
    for (const { key } of keys) expect((await ask(id, {}, key)).status).toBe(403);
    const there = await newMaker({ permissions: ['session:create'], rules: [{ ...rule, container: '/pci/' }] });
    expect((await ask(id, {}, there.key)).status).toBe(201);
  });
});

describe('the code', () => {
  test('replaces that of the card, and nothing else of it changes', async () => {
    const id = await makeCard({ cvc: '111' });
    const before = (await server.request('GET', `/tokens/${id}`)).body;
    const session = await newSession(id);
    const saved = await save(session, { cvc: '737' });
    expect([saved.status, Object.keys(saved.body)]).toEqual([200, ['id', 'cvc_expires_at']]);
    expect(saved.body.id).toBe(id);
    expect(Date.parse(saved.body.cvc_expires_at)).toBeGreaterThan(Date.now() + 3_000_000);
    expect(saved.headers.get('access-control-allow-origin')).toBe(SHOP);
    expect(await codeOf(id)).toBe('737');
    expect((await server.request('GET', `/tokens/${id}`)).body).toEqual(before);
    expect((await server.request('GET', `/sessions/${session.id}`)).body.tokens).toEqual([id]);
    const logged = await server.sql(
      `SELECT actor_id, actor_type, entity_type, operation, disclosure FROM audit_log
       WHERE $1 = ANY(entity_ids) AND message = 'Security code collected'`,
      [id],
    );
    const row = { actor_type: 'session', entity_type: 'card', operation: 'update', disclosure: 'none' };
    expect(logged).toEqual([{ actor_id: session.id, ...row }]);
    expect(server.logLines.join('')).not.toContain('737"');
  });

  test('of a card that had none is there after it; a second one replaces the first', async () => {
    const id = await makeCard();
    const session = await newSession(id);
    expect(await codeOf(id)).toBeUndefined();
    expect((await save(session, { cvc: 1234 })).status).toBe(200);
    expect((await save(session, { cvc: '999' })).status).toBe(200);
    expect(await codeOf(id)).toBe('999');
    expect((await server.request('GET', `/sessions/${session.id}`)).body.tokens).toEqual([id]);
  });

  test('is refused for all that is no code, and each request is a try', async () => {
    const id = await makeCard();
    const [one, two] = [await newSession(id), await newSession(id)];
    expect(errorsOf(await save(one, { cvc: '12' }))).toEqual([400, ['cvc']]);
    expect(errorsOf(await save(one, { cvc: '123', number: NUMBER }))).toEqual([400, ['number']]);
    expect(errorsOf(await save(one, {}))).toEqual([400, ['cvc']]);
    const fourth = await save(one);
    expect([fourth.status, fourth.headers.get('access-control-allow-origin')]).toEqual([403, SHOP]);
    const raw = (body: string, type: string) =>
      server.request('POST', `/sessions/${two.id}/cvc`, {
        key: two.session_key,
        body,
        headers: { origin: SHOP, 'content-type': type },
      });
    expect((await raw('{', 'application/json')).status).toBe(400);
    expect((await raw('cvc=123', 'text/plain')).status).toBe(415);
    expect((await raw('"123"', 'application/json')).status).toBe(400);
    expect((await save(two)).status).toBe(403);
    expect(await codeOf(id)).toBeUndefined();
  });

  test('is stored three times at most, however many requests come at once', async () => {
    const session = await newSession(await makeCard());
    const answers = await Promise.all(Array.from({ length: 12 }, () => save(session)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(3);
    expect(answers.filter(({ status }) => status === 403)).toHaveLength(9);
  });

  test('is not kept for an idempotency key: a repetition is a try', async () => {
    const session = await newSession(await makeCard());
    const headers = { 'svc-idempotency-key': randomUUID() };
    for (const expected of [200, 200, 200, 403])
      expect((await save(session, { cvc: '737' }, headers)).status).toBe(expected);
    const kept = await server.sql('SELECT count(*)::int AS n FROM idempotency_keys WHERE tenant_id = $1', [
      server.tenant.tenant_id,
    ]);
    expect(kept).toEqual([{ n: 0 }]);
  });
});

describe('the key of such a session', () => {
  test('creates, reads and changes nothing else', async () => {
    const id = await makeCard();
    const { session_key: key, id: session } = await newSession(id);
    const card = { type: 'card', data: { number: NUMBER } };
    const asked: [string, string, unknown][] = [
      ['POST', '/tokens', card],
      ['POST', '/tokenize', card],
      ['POST', '/detokenize', `{{ ${id} }}`],
      ['PATCH', `/tokens/${id}`, { data: { cvc: '123' } }],
      ['GET', `/tokens/${id}`, undefined],
      ['DELETE', `/tokens/${id}`, undefined],
      ['GET', `/sessions/${session}`, undefined],
      ['POST', '/sessions', {}],
    ];
    for (const [method, path, json] of asked) {
      const answer = await server.request(method, path, { key, json, headers: { origin: SHOP } });
      expect([method, path, answer.status]).toEqual([method, path, 403]);
    }
    expect((await save({ id: session, session_key: key })).status).toBe(200);
  });

  test('is the only one that sends the code of its card', async () => {
    const id = await makeCard();
    const session = await newSession(id);
    const other = await newSession(await makeCard());
    const json = { allowed_origins: [SHOP], types: ['card'] };
    const creating = (await server.request('POST', '/sessions', { json })).body;
    const open = await newMaker({ type: 'public', permissions: ['token:create'], allowed_origins: [SHOP] });
    for (const session_key of [other.session_key, creating.session_key, open.key, server.tenant.api_key])
      expect((await save({ id: session.id, session_key })).status).toBe(403);
    expect((await save({ id: creating.id, session_key: creating.session_key })).status).toBe(403);
    expect((await save({ id: randomUUID(), session_key: session.session_key })).status).toBe(403);
    expect((await save({ id: session.id, session_key: `${session.session_key}x` })).status).toBe(401);
    expect(await codeOf(id)).toBeUndefined();
    // None of these was a try.
    for (const expected of [200, 200, 200, 403]) expect((await save(session)).status).toBe(expected);
  });

  test('works from listed pages, and from the vault only within a frame of this session', async () => {
    const id = await makeCard();
    const session = await newSession(id);
    const refused: [headers: Record<string, string>, readable: string | null][] = [
      [{ origin: 'https://other.example.com' }, null],
      [{ origin: 'null' }, null],
      [{ origin: server.base_url }, null],
      [{ origin: server.base_url, 'svc-fields-session': randomUUID() }, null],
      [{ origin: SHOP, 'svc-fields-session': randomUUID() }, SHOP],
    ];
    for (const [headers, readable] of refused) {
      const answer = await save(session, { cvc: '737' }, headers);
      expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([403, readable]);
    }
    const without = await server.request('POST', `/sessions/${session.id}/cvc`, {
      key: session.session_key,
      json: { cvc: '737' },
    });
    expect(without.status).toBe(403);
    expect(await codeOf(id)).toBeUndefined();
    const framed = { origin: server.base_url, 'svc-fields-session': session.id };
    expect((await save(session, { cvc: '737' }, framed)).status).toBe(200);
  });

  test('answers a preflight of its route', async () => {
    const { id } = await newSession(await makeCard());
    const { status, headers } = await server.request('OPTIONS', `/sessions/${id}/cvc`, {
      key: null,
      headers: { origin: SHOP, 'access-control-request-method': 'POST' },
    });
    expect([status, headers.get('access-control-allow-origin')]).toEqual([204, SHOP]);
    expect(headers.get('access-control-allow-methods')).toBe('POST');
  });

  test('ends with its time, and with the API key that created it', async () => {
    const id = await makeCard();
    const session = await newSession(id, { expires_in: '1m' });
    server.clock.offsetMs = 61_000;
    const late = await save(session);
    server.clock.offsetMs = 0;
    expect(late.status).toBe(401);
    const maker = await newMaker({ permissions: ['session:create', 'token:update'] });
    const ofMaker = await newSession(id, {}, maker.key);
    expect((await save(ofMaker)).status).toBe(200);
    expect((await server.request('POST', `/applications/${maker.id}/regenerate`)).status).toBe(200);
    await expect.poll(async () => (await save(ofMaker)).status).toBe(401);
  });

  test('does what its application may do now', async () => {
    const id = await makeCard();
    const rights = { permissions: ['session:create', 'token:update'] };
    const maker = await newMaker(rights);
    const session = await newSession(id, {}, maker.key);
    const change = (permissions: string[]) =>
      server.request('PUT', `/applications/${maker.id}`, { json: { name: 'Maker', type: 'private', permissions } });
    expect((await change(['session:create'])).status).toBe(200);
    await expect.poll(async () => (await save(session)).status).toBe(403);
    expect((await change(['token:update'])).status).toBe(200);
    await expect.poll(async () => (await save(session)).status).toBe(403);
    expect(await codeOf(id)).toBeUndefined();
  });

  test('reaches no card that was moved away or deleted since', async () => {
    const [moved, gone] = [await makeCard(), await makeCard()];
    const rule = { priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:update'] };
    const maker = await newMaker({ permissions: ['session:create'], rules: [rule] });
    const [one, two] = [await newSession(moved, {}, maker.key), await newSession(gone, {}, maker.key)];
    await server.request('PATCH', `/tokens/${moved}`, { json: { containers: ['/elsewhere/'] } });
    await server.request('DELETE', `/tokens/${gone}`);
    expect([(await save(one)).status, (await save(two)).status]).toEqual([403, 404]);
    expect(await codeOf(moved)).toBeUndefined();
  });

  test('is of no other card, whatever is written to its row', async () => {
    const [id, other] = [await makeCard(), await makeCard()];
    const session = await newSession(id);
    await server.sql('UPDATE collect_sessions SET token_id = $2 WHERE id = $1', [session.id, other]);
    expect((await save(session)).status).toBe(401);
    expect([await codeOf(id), await codeOf(other)]).toEqual([undefined, undefined]);
  });
});

describe('the page for redirects', () => {
  const RETURN_URL = `${SHOP}/paid?order=1`;
  const pathOf = ({ collect_url }: Session): string => new URL(collect_url).pathname;
  const show = (session: Session) => server.request('GET', pathOf(session), { key: null });
  const send = (session: Session, cvc: string) =>
    server.request('POST', pathOf(session), {
      key: null,
      body: new URLSearchParams({ cvc }).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });

  test('has one field and the last four digits, takes a code once, and leads back', async () => {
    const id = await makeCard({ cvc: '111' });
    const session = await newSession(id, { return_url: RETURN_URL });
    const { status, text } = await show(session);
    expect([status, text.match(/<input[^>]*>/g)]).toEqual([200, [expect.stringContaining('autocomplete="cc-csc"')]]);
    expect(text).toContain('ends with 4242');
    expect(text).not.toContain('<script');
    const reads = await server.request('GET', `/logs?entity_id=${id}&operation=read`);
    expect(reads.body.data).toEqual([expect.objectContaining({ actor_id: session.id, disclosure: 'masked' })]);
    const wrong = await send(session, '1234');
    expect([wrong.status, wrong.text.includes('Check the security code.')]).toEqual([422, true]);
    expect(withoutDrawn(wrong.text)).not.toContain('1234');
    expect(await codeOf(id)).toBe('111');
    const sent = await send(session, ' 737 ');
    expect([sent.status, sent.headers.get('location')]).toEqual([303, `${RETURN_URL}&session=${session.id}`]);
    expect(await codeOf(id)).toBe('737');
    expect([(await show(session)).status, (await send(session, '999')).status]).toEqual([410, 410]);
    expect(await codeOf(id)).toBe('737');
  });

  test('takes four digits for American Express, and shows no digits to who may not read them', async () => {
    const id = await makeCard({ number: AMEX });
    const maker = await newMaker({ permissions: ['session:create', 'token:update'] });
    const session = await newSession(id, { return_url: RETURN_URL }, maker.key);
    const { text } = await show(session);
    expect([text.includes('your card.'), withoutDrawn(text).includes('0005')]).toEqual([true, false]);
    expect((await send(session, '737')).status).toBe(422);
    expect((await send(session, '7371')).status).toBe(303);
    expect(await codeOf(id)).toBe('7371');
  });

  test('shows no digits that the mask of the card hides, to a creator who may see the value', async () => {
    const made = await server.request('POST', '/tokens', {
      json: { type: 'card', data: { number: NUMBER }, mask: { number: '{{ data.number | slice: 0, 2 }}' } },
    });
    const permissions = ['session:create', 'token:update'] as const;
    const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] }];
    const maker = await newMaker({ permissions: [...permissions], rules });
    const session = await newSession(made.body.id, { return_url: RETURN_URL }, maker.key);
    expect(withoutDrawn((await show(session)).text)).not.toContain('4242');
  });

  test('is gone with its card', async () => {
    const id = await makeCard();
    const session = await newSession(id, { return_url: RETURN_URL });
    await server.request('DELETE', `/tokens/${id}`);
    expect([(await show(session)).status, (await send(session, '737')).status]).toEqual([410, 410]);
  });
});

test('a code has the length that the frame of a number knows of its brand', () => {
  const numbers = [
    '4242424242424242',
    '5555555555554444',
    '2223003122003222',
    AMEX,
    '341111111111111',
    '6011111111111117',
  ];
  numbers.push('3566002020360505', '30569309025904', '36227206271667', '6200000000000005', '2200000000000004');
  numbers.push('5018000000000009', '6071980000000001', '5066990000000005', '38520000023237', '8171999927660000');
  for (const number of numbers)
    expect([number, codeLengthOf({ kept: { data: { number } } })]).toEqual([number, brandOf(number)?.cvc]);
  expect(codeLengthOf({ kept: { data: { number: '1000000000009' } } })).toBe(brandOf('1000000000009')?.cvc);
});
