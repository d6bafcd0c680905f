// A kept response is returned only to a caller that may see all of it today, and each return is logged.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Permission } from '../src/modules/access/permissions.ts';
import { codeOf, makeReactor, type ReactorServer, startReactorServer } from './support/reactors.ts';
import type { Answer, TestServer, TestTenant } from './support/server.ts';
import { makeProxy } from './support/stored-proxies.ts';
import { withoutDrawn } from './support/text.ts';

const CVC_TTL_S = 100;

let fixture: ReactorServer;
let server: TestServer;
let tenant: TestTenant;

beforeAll(async () => {
  fixture = await startReactorServer({ CVC_TTL: `${CVC_TTL_S}s` });
  ({ server } = fixture);
  tenant = await server.newTenant();
});
afterAll(() => fixture.close());

let count = 0;
const newKey = (): string => `replay-${(count += 1)}`;

const bank = { routing_number: '110000000', account_number: '000123456789' };
const card = { type: 'card', data: { number: '4242424242424242', cvc: '737' } };

const create = async (request: object): Promise<string> => {
  const answer = await server.request('POST', '/tokens', { json: request, key: tenant.api_key });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};

type Rule = { priority: number; container: string; transform: string; permissions: string[] };
const rule = (container: string, transform: string, ...permissions: string[]): Rule => ({
  priority: 1,
  container,
  transform,
  permissions,
});

/** Gives a key other rights than it had. Permissions and rules are replaced as a whole. */
const change = async (key: TestTenant, rights: { permissions?: string[]; rules?: Rule[] }): Promise<void> => {
  const json = { name: 'Key', permissions: [], rules: [], ...rights };
  const answer = await server.request('PUT', `/applications/${key.application_id}`, { json, key: tenant.api_key });
  expect(answer.status, answer.text).toBe(200);
};

const patch = async (id: string, change: object): Promise<void> => {
  const admin = await server.newKey(tenant, {
    permissions: ['token:update', 'token:use'],
    rules: [rule('/', 'reveal', 'token:read', 'token:search')],
  });
  const answer = await server.request('PATCH', `/tokens/${id}`, {
    key: admin.api_key,
    headers: { 'content-type': 'application/merge-patch+json' },
    body: JSON.stringify(change),
  });
  expect(answer.status, answer.text).toBe(200);
};

const move = (id: string, container: string): Promise<void> => patch(id, { containers: [container] });

type Row = Record<string, unknown>;

type Again = { first: Answer; again(json?: object): Promise<Answer> };

/** A request with an idempotency key that was answered, and the same once more. */
const once = async (method: string, path: string, key: TestTenant, json: object): Promise<Again> => {
  const headers = { 'svc-idempotency-key': newKey() };
  const again = (body = json) => server.request(method, path, { json: body, headers, key: key.api_key });
  const first = await again();
  expect(first.status, first.text).toBeLessThan(300);
  return { first, again };
};

const expectSame = (again: Answer, first: Answer): void => {
  expect([again.status, again.text]).toEqual([first.status, first.text]);
  expect(again.headers.get('svc-idempotent-replayed')).toBe('true');
};

const expectRefused = (again: Answer, status: number): void => {
  expect(again.status, again.text).toBe(status);
  expect(again.headers.get('svc-idempotent-replayed')).toBeNull();
  // A trace id may have any digits.
  const { trace_id: _, ...result } = again.body;
  expect(withoutDrawn(JSON.stringify(result))).not.toMatch(/4242|737/);
};

/** Rows of answers that were given again, about an entity. */
const replayedRows = (entity_id: string): Promise<Row[]> =>
  server.sql("SELECT * FROM audit_log WHERE outcome = 'replayed' AND entity_ids @> ARRAY[$1::text] ORDER BY id", [
    entity_id,
  ]);

const ECHO = codeOf('return { raw: { card: args.card } };');

describe('the answer of code that used a card', () => {
  const reacted = async (key: TestTenant, request: object = card) => {
    const id = await create(request);
    const reactor = await makeReactor(server, { code: ECHO, key: tenant.api_key });
    const path = `/reactors/${reactor.id}/react`;
    return { id, reactor, ...(await once('POST', path, key, { args: { card: `{{ ${id} }}` } })) };
  };
  const user = () => server.newKey(tenant, { permissions: ['token:use'] });

  test('is given again as it was, and the log says so', async () => {
    const key = await user();
    const { id, reactor, first, again } = await reacted(key);
    expect(first.text).toContain('737');
    expectSame(await again(), first);
    const { body } = await server.request('GET', `/logs?actor_id=${key.application_id}&outcome=replayed`, {
      key: tenant.api_key,
    });
    expect(body.data.map((entry: any) => [entry.operation, entry.entity_id, entry.disclosure]).toSorted()).toEqual(
      [
        ['use', id, 'used'],
        ['use', reactor.id, 'none'],
      ].toSorted(),
    );
  });

  test('is gone when the security code in it expires, though it was given later than the code', async () => {
    const id = await create(card);
    server.clock.offsetMs += (CVC_TTL_S * 1000) / 2;
    const reactor = await makeReactor(server, { code: ECHO, key: tenant.api_key });
    const path = `/reactors/${reactor.id}/react`;
    const { first, again } = await once('POST', path, tenant, { args: { card: `{{ ${id} }}` } });
    expect(first.text).toContain('737');
    expectSame(await again(), first);
    server.clock.offsetMs += (CVC_TTL_S * 1000) / 2 + 1000;
    expectRefused(await again(), 409);
  });

  test('is a 403 for a caller that may not use the token any more', async () => {
    const key = await user();
    const { again } = await reacted(key);
    await change(key, { rules: [rule('/elsewhere/', 'reveal', 'token:use')] });
    expectRefused(await again(), 403);
  });

  test('is a 409 where a rule would show less of the token today', async () => {
    const key = await user();
    const { again } = await reacted(key);
    await change(key, { rules: [rule('/pci/', 'mask', 'token:use')] });
    expectRefused(await again(), 409);
  });

  test('is a 409 once the token is deleted', async () => {
    const { id, again } = await reacted(await user());
    await server.request('DELETE', `/tokens/${id}`, { key: tenant.api_key });
    expectRefused(await again(), 409);
  });

  test('is decided over the container that the token is in today', async () => {
    const key = await server.newKey(tenant, { rules: [rule('/pci/', 'reveal', 'token:use')] });
    const { id, first, again } = await reacted(key);
    await move(id, '/pci/other/');
    expectSame(await again(), first);
    await move(id, '/closed/');
    expectRefused(await again(), 403);
  });
});

describe('the answer of code that read by its application', () => {
  const readBy = async (application: TestTenant, body: string, args: object): Promise<Again & { path: string }> => {
    const reactor = await makeReactor(server, { code: codeOf(body), application, key: tenant.api_key });
    const path = `/reactors/${reactor.id}/react`;
    return { path, ...(await once('POST', path, tenant, { args })) };
  };
  const RETRIEVE = 'return { raw: await svc.tokens.retrieve(args.id) };';

  test('is a 403 once the application may not read the token', async () => {
    const id = await create(card);
    const application = await server.newKey(tenant, { rules: [rule('/pci/', 'reveal', 'token:read')] });
    const { first, again } = await readBy(application, RETRIEVE, { id });
    expect(first.text).toContain('4242424242424242');
    expectSame(await again(), first);
    await change(application, { rules: [rule('/elsewhere/', 'reveal', 'token:read')] });
    expectRefused(await again(), 403);
  });

  test('is a 409 once a mask hides the value', async () => {
    const id = await create({ type: 'token', data: 'value-4242' });
    const application = await server.newKey(tenant, { permissions: ['token:read'] });
    const { first, again } = await readBy(application, RETRIEVE, { id });
    expect(first.text).toContain('value-4242');
    expectSame(await again(), first);
    await patch(id, { mask: 'hidden' });
    expectRefused(await again(), 409);
  });

  test('is given again where it has the mask that is there today', async () => {
    const id = await create({ type: 'token', data: 'value-4242', mask: 'hidden' });
    const application = await server.newKey(tenant, { rules: [rule('/', 'mask', 'token:read')] });
    const { first, again } = await readBy(application, RETRIEVE, { id });
    expect(first.text).toContain('hidden');
    await change(application, { permissions: ['token:read'] });
    expectSame(await again(), first);
  });

  test.each([
    ['with a mask of its own', { type: 'token', data: 'value-4242', mask: 'first words' }, 'first words'],
    ['with the mask of its type', card, 'XXXXXXXXXXXX4242'],
  ])('is a 409 once a token %s has another mask, and as it was while the mask is the same', async (_, token, shown) => {
    const id = await create(token);
    const application = await server.newKey(tenant, { permissions: ['token:read', 'token:search'] });
    const [read, found] = [
      await readBy(application, RETRIEVE, { id }),
      await readBy(application, 'return { raw: await svc.tokens.search({ query: `id:${args.id}` }) };', { id }),
    ];
    for (const { first } of [read, found]) expect(first.text).toContain(shown);
    await patch(id, { metadata: { a: 'b' }, containers: ['/elsewhere/'] });
    for (const { first, again } of [read, found]) expectSame(await again(), first);
    await patch(id, { mask: 'hidden' });
    for (const { again } of [read, found]) {
      const refused = await again();
      expectRefused(refused, 409);
      expect(refused.text).not.toContain(shown);
    }
  });

  test('is a 403 where a right is missing, also where less would be shown of another token', async () => {
    const [less, none] = [await create(card), await create({ type: 'bank', data: bank })];
    const reveal = (container: string) => rule(container, 'reveal', 'token:read');
    const application = await server.newKey(tenant, { rules: [reveal('/pci/'), reveal('/bank/')] });
    const { first, again } = await readBy(
      application,
      'return { raw: [await svc.tokens.retrieve(args.less), await svc.tokens.retrieve(args.none)] };',
      { less, none },
    );
    expectSame(await again(), first);
    await change(application, { rules: [rule('/pci/', 'redact', 'token:read')] });
    expectRefused(await again(), 403);
    await change(application, { rules: [rule('/pci/', 'redact', 'token:read'), reveal('/bank/')] });
    expectRefused(await again(), 409);
  });

  test('is given again after the code deleted a token, while its application may delete there', async () => {
    const id = await create(card);
    const application = await server.newKey(tenant, { rules: [rule('/pci/', 'reveal', 'token:delete')] });
    const { first, again } = await readBy(application, "await svc.tokens.delete(args.id); return { raw: 'done' };", {
      id,
    });
    expectSame(await again(), first);
    await change(application, { rules: [rule('/bank/', 'reveal', 'token:delete')] });
    expectRefused(await again(), 403);
  });
});

describe('the answer of a change', () => {
  const MERGE = { 'content-type': 'application/merge-patch+json' };
  const toBank = JSON.stringify({ containers: ['/bank/'] });

  test('that moved a token is given again where the caller sees less of it now', async () => {
    const id = await create(card);
    const key = await server.newKey(tenant, {
      rules: [
        rule('/pci/', 'reveal', 'token:update', 'token:read'),
        rule('/bank/', 'mask', 'token:update', 'token:read'),
      ],
    });
    const headers = { ...MERGE, 'svc-idempotency-key': newKey() };
    const send = () => server.request('PATCH', `/tokens/${id}`, { headers, body: toBank, key: key.api_key });
    const first = await send();
    expect(first.status, first.text).toBe(200);
    expectSame(await send(), first);
    await change(key, { rules: [rule('/bank/', 'redact', 'token:update'), rule('/bank/', 'mask', 'token:read')] });
    expectRefused(await send(), 409);
    await change(key, { rules: [rule('/bank/', 'mask', 'token:read')] });
    expectRefused(await send(), 403);
  });
});

test('the answer of a change is a 409 once the token has another mask than it answered', async () => {
  const id = await create({ type: 'token', data: 'value-4242', mask: 'first words' });
  const headers = { 'content-type': 'application/merge-patch+json', 'svc-idempotency-key': newKey() };
  const body = JSON.stringify({ metadata: { a: 'b' } });
  const send = () => server.request('PATCH', `/tokens/${id}`, { headers, body, key: tenant.api_key });
  const first = await send();
  expect(first.text).toContain('first words');
  expectSame(await send(), first);
  await patch(id, { mask: 'hidden' });
  expectRefused(await send(), 409);
});

describe('the answer of code that called a proxy', () => {
  test('rests on what the code of the proxy read by the application of the proxy', async () => {
    const id = await create({ type: 'token', data: 'value-4242' });
    const reader = await server.newKey(tenant, { permissions: ['token:read'] });
    const user = await server.newKey(tenant, { permissions: ['token:use'] });
    const proxy = await makeProxy(
      server,
      {
        destination_url: fixture.url,
        application: { id: reader.application_id },
        response_transform: {
          code: `module.exports = async ({ svc }) => ({ body: await svc.tokens.retrieve('${id}'), headers: {} });`,
        },
      },
      tenant.api_key,
    );
    const reactor = await makeReactor(server, {
      code: codeOf(`return { raw: await svc.proxy.post({ headers: { 'svc-proxy-key': args.key }, body: {} }) };`),
      application: user,
      key: tenant.api_key,
    });
    const { first, again } = await once('POST', `/reactors/${reactor.id}/react`, tenant, { args: { key: proxy.key } });
    expect(first.text).toContain('value-4242');
    expectSame(await again(), first);
    const rows = await replayedRows(id);
    expect(rows).toMatchObject([{ operation: 'read', disclosure: 'revealed', proxy_id: proxy.id }]);
    await change(reader, { permissions: ['token:search'] });
    expectRefused(await again(), 403);
  });
});

describe('the log of an answer that is given again', () => {
  const rowsWith = async (trace_id: string, outcome: string): Promise<Row[]> => {
    const rows = await server.sql(
      `SELECT operation, entity_type, entity_ids, message, disclosure, destination_host, reactor_id, proxy_id, is_list
       FROM audit_log WHERE trace_id = $1 AND outcome = $2`,
      [trace_id, outcome],
    );
    return rows.toSorted((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)));
  };

  /** Runs code once, and has its answer again. @returns the rows that were written each time. */
  const logged = async (body: string, args: object, permissions: Permission[]) => {
    const application = await server.newKey(tenant, { permissions });
    const reactor = await makeReactor(server, { code: codeOf(body), application, key: tenant.api_key });
    const key = newKey();
    const send = (trace_id: string) =>
      server.request('POST', `/reactors/${reactor.id}/react`, {
        json: { args },
        headers: { 'svc-idempotency-key': key, 'svc-trace-id': trace_id },
        key: tenant.api_key,
      });
    const first = await send(`${key}-first`);
    expect(first.status, first.text).toBe(200);
    expectSame(await send(`${key}-again`), first);
    const [done, replayed] = [await rowsWith(`${key}-first`, 'success'), await rowsWith(`${key}-again`, 'replayed')];
    return { first, reactor, done, replayed };
  };

  test('names the reactor and the destination of a value, and no proxy where none is in the log', async () => {
    const id = await create({ data: 'a value' });
    const body = `const answer = await svc.proxy.post({
      headers: { 'svc-proxy-url': args.url }, body: { a: svc.expression(args.id) },
    }); return { raw: answer.a };`;
    const { reactor, done, replayed } = await logged(body, { id, url: fixture.url }, ['token:use']);
    expect(replayed).toEqual(done);
    expect(replayed).toContainEqual(
      expect.objectContaining({
        entity_ids: [id],
        disclosure: 'used',
        destination_host: new URL(fixture.url).host,
        reactor_id: reactor.id,
      }),
    );
  });

  test('has the tokens that the code made', async () => {
    const known = await create({ data: 'known', id: newKey() });
    const { done, replayed } = await logged(
      `const made = await svc.tokens.create({ data: 'made' });
       const equal = { data: 'equal ' + made.id, type: 'token', deduplicate_token: true };
       const first = await svc.tokens.create(equal);
       const second = await svc.tokens.create(equal);
       await svc.tokens.create({ data: 'x', id: args.known }).catch(() => undefined);
       return { raw: [await svc.tokenize(['a', 'b']), made.id, first.id === second.id] };`,
      { known },
      ['token:create', 'token:read'],
    );
    expect(replayed).toEqual(done);
    expect(replayed.filter(({ operation }) => operation === 'create')).toHaveLength(3);
    expect(replayed.flatMap(({ entity_ids }) => entity_ids)).not.toContain(known);
  });

  test('has nothing that was refused to the code or did not come to pass', async () => {
    const id = await create({ data: 'x' });
    const { first, done, replayed } = await logged(
      `let refused = 0;
       for (let count = 0; count < 150; count += 1) await svc.tokens.delete(args.id).catch(() => (refused += 1));
       await svc.tokens.update(args.id, { containers: ['not a container'] }).catch(() => (refused += 1));
       return { raw: refused };`,
      { id },
      ['token:update'],
    );
    expect(first.body.raw).toBe(151);
    expect(replayed).toEqual(done);
    expect(replayed).toHaveLength(1);
  });
});

describe('the answer of a create', () => {
  test('is given again after the token was deleted: its caller has sent all that is in it', async () => {
    const { first, again } = await once('POST', '/tokens', tenant, card);
    await server.request('DELETE', `/tokens/${first.body.id}`, { key: tenant.api_key });
    expectSame(await again(), first);
    const { body } = await server.request('GET', `/logs?entity_id=${first.body.id}&outcome=replayed`, {
      key: tenant.api_key,
    });
    expect(body.data).toMatchObject([{ operation: 'create', entity_type: 'card' }]);
  });

  test('is a 403 once token:create does not reach the container', async () => {
    const key = await server.newKey(tenant, { permissions: ['token:create'] });
    const { again } = await once('POST', '/tokens', key, card);
    await change(key, { rules: [rule('/bank/', 'mask', 'token:create')] });
    expectRefused(await again(), 403);
  });

  test('is a 409 where it has a fingerprint that its caller may not see today', async () => {
    const key = await server.newKey(tenant, { permissions: ['token:create', 'token:read'] });
    const { first, again } = await once('POST', '/tokens', key, card);
    expect(first.body.fingerprint).toEqual(expect.any(String));
    await change(key, { permissions: ['token:create'], rules: [rule('/', 'redact', 'token:read')] });
    expectRefused(await again(), 409);
  });

  test('of ten thousand tokens is given again', async () => {
    const values = Array.from({ length: 10_000 }, (_, index) => index);
    const { first, again } = await once('POST', '/tokenize', tenant, values);
    expectSame(await again(), first);
  });
});

describe('an answer with an API key in it', () => {
  test('is a 403 once its caller could not give the application these rights', async () => {
    const key = await server.newKey(tenant, { permissions: ['application:create', 'token:read', 'token:use'] });
    const json = { name: 'A', type: 'private', permissions: ['token:use'] };
    const { first, again } = await once('POST', '/applications', key, json);
    expectSame(await again(), first);
    await change(key, { permissions: ['application:create', 'token:read'] });
    const refused = await again();
    expectRefused(refused, 403);
    expect(refused.text).not.toContain(first.body.key);
  });
});

describe('an answer with a key of an application that holds more by now', () => {
  const more = ['token:read', 'token:use'];
  const own: Permission[] = ['application:create', 'application:update', 'proxy:create', 'proxy:update', 'token:read'];
  const rightsNow = async (id: string, permissions: string[]) => {
    const json = { name: 'Later', permissions };
    const changed = await server.request('PUT', `/applications/${id}`, { json, key: tenant.api_key });
    expect(changed.status, changed.text).toBe(200);
  };
  const makeOne = async () => {
    const json = { name: 'Later', type: 'private', permissions: ['token:read'] };
    const answer = await server.request('POST', '/applications', { json, key: tenant.api_key });
    expect(answer.status, answer.text).toBe(201);
    return answer.body.id as string;
  };
  /** Each operation whose response has a key: the request, and the application whose rights the key gives. */
  const operations: [string, () => Promise<{ path: string; json: object; find?: (answer: Answer) => string }>][] = [
    [
      'a create of the application',
      async () => ({
        path: '/applications',
        json: { name: 'Later', type: 'private', permissions: ['token:read'] },
        find: ({ body }) => body.id,
      }),
    ],
    [
      'another key of it',
      async () => {
        const id = await makeOne();
        return { path: `/applications/${id}/keys`, json: { name: 'k' }, find: () => id };
      },
    ],
    [
      'a new key of it',
      async () => {
        const id = await makeOne();
        return { path: `/applications/${id}/regenerate`, json: {}, find: () => id };
      },
    ],
    [
      'a new key of a proxy with it',
      async () => {
        const id = await makeOne();
        const wanted = { destination_url: fixture.url, application: { id }, require_auth: false };
        const proxy = await makeProxy(server, wanted, tenant.api_key);
        return { path: `/proxies/${proxy.id}/rotate-key`, json: {}, find: () => id };
      },
    ],
  ];

  test.each(operations)('is a 403: %s', async (_, prepare) => {
    const { path, json, find } = await prepare();
    const caller = await server.newKey(tenant, { permissions: own });
    const headers = { 'svc-idempotency-key': newKey() };
    const send = () => server.request('POST', path, { json, headers, key: caller.api_key });
    const first = await send();
    expect(first.body.key, first.text).toBeTypeOf('string');
    expect((await send()).body).toEqual(first.body);
    const id = find?.(first) ?? '';
    await rightsNow(id, more);
    const refused = await send();
    expect([refused.status, refused.text.includes(first.body.key)], refused.text).toEqual([403, false]);
    await rightsNow(id, ['token:read']);
    expect((await send()).body).toEqual(first.body);
  });
});

describe('another body under the same key', () => {
  test.each([
    ['a value is another', { data: 'other' }],
    ['there is one attribute more', { data: 'x', metadata: { a: 'b' } }],
    ['it is not valid', { data: null, type: 5 }],
  ])('is a 422 where %s', async (_, other) => {
    const { first, again } = await once('POST', '/tokens', tenant, { data: 'x' });
    const refused = await again(other);
    expect(refused.status).toBe(422);
    expect(refused.text).not.toContain(first.body.id);
    expectSame(await again({ data: 'x' }), first);
  });

  test('is a 422 where there was one and is none, and where there was none and is one', async () => {
    const reactor = await makeReactor(server, { code: codeOf('return { raw: 1 };'), key: tenant.api_key });
    const headers = { 'svc-idempotency-key': newKey() };
    const path = `/reactors/${reactor.id}/react`;
    const send = (json?: object) => server.request('POST', path, { headers, key: tenant.api_key, json });
    expect((await send()).status).toBe(200);
    expect((await send({ args: {} })).status).toBe(422);
  });
});
