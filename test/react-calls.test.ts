// Calls of running code over HTTP: `svc` with its application's rights, requests to allowed hosts, console, number of runs.
// Args, results and errors are in react.test.ts.
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TestServer, TestTenant } from './support/server.ts';
import {
  codeOf,
  makeReactor,
  type MadeReactor,
  problemOf,
  rawOf,
  react,
  type ReactorServer,
  runBody,
  startReactorServer,
  tokenOf,
  usesOf,
} from './support/reactors.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';
import { withoutDrawn } from './support/text.ts';

let fixture: ReactorServer;
let server: TestServer;
/** Listens where no code may go. */
let decoy: Upstream;
let otherTenant: TestTenant;
/** The addresses of host names that are not private hosts. */
const addresses = new Map<string, string[]>([
  ['inside.test', ['127.0.0.1']],
  ['half.test', ['93.184.216.34', '127.0.0.1']],
  ['metadata.test', ['169.254.169.254']],
  ['mapped.test', ['::ffff:127.0.0.1']],
  ['six.test', ['::1']],
]);
const lookups: string[] = [];

beforeAll(async () => {
  decoy = await startUpstream({ hosts: ['*.test', 'localhost'] });
  fixture = await startReactorServer({ PUBLIC_HOSTS: 'vault.test' }, (host) => {
    lookups.push(host);
    return Promise.resolve(addresses.get(host) ?? []);
  });
  ({ server } = fixture);
  otherTenant = await server.newTenant();
});
afterAll(async () => {
  await fixture.close();
  await decoy.close();
});

/** What became of a call, as code sees it: its result, or the words of its error. */
const TRY = `const attempt = async (work) => {
  try { return { value: await work() }; }
  catch (error) { return { name: error.name, code: error.code, status: error.status, cause: error.cause && error.cause.code, message: error.message }; }
};`;

const application = (...permissions: Parameters<TestServer['newKey']>[1]['permissions'] & object) =>
  server.newKey(server.tenant, { permissions });

const withService = async (body: string, of: TestTenant): Promise<MadeReactor> =>
  makeReactor(server, { code: codeOf(`${TRY} ${body}`), application: of });

/** The upstream's echo of a request that code made. */
const headersOf = (echoed: { headers: [string, string][] }): Record<string, string> =>
  Object.fromEntries(echoed.headers.map(([name, value]) => [name.toLowerCase(), value]));

const gate = () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
};

describe('svc', () => {
  test('has each method of the documents, done and logged as the application', async () => {
    const own = await application('token:create', 'token:read', 'token:update', 'token:delete', 'token:search');
    const weak = await application('token:use');
    const reactor = await withService(
      `const created = await svc.tokens.create({ type: 'token', data: 'first', metadata: { order: args.order } });
       const { id } = created;
       const updated = await svc.tokens.update(id, { metadata: { note: 'x' } });
       return { raw: {
         names: [Object.keys(svc), Object.keys(svc.tokens)], created, updated,
         retrieved: await svc.tokens.retrieve(id),
         tokenized: await svc.tokenize({ a: 'second', b: null }),
         detokenized: await svc.detokenize({ a: '{{ ' + id + ' }}', b: 1 }),
         found: await svc.tokens.search('metadata.order:' + args.order, { page: 1, size: 5 }),
         foundToo: (await svc.tokens.search({ query: 'metadata.order:' + args.order })).data.length,
         deleted: await svc.tokens.delete(id),
         gone: await attempt(() => svc.tokens.retrieve(id)),
       } };`,
      own,
    );
    const order = crypto.randomUUID();
    const raw = await rawOf(react(server, reactor, { order }, { key: weak.api_key }));
    const { id } = raw.created;
    expect(raw.names).toEqual([
      ['tokenize', 'detokenize', 'tokens', 'expression', 'literal', 'proxy'],
      ['create', 'retrieve', 'update', 'delete', 'search'],
    ]);
    expect(raw.created).toMatchObject({ created_by: own.application_id, metadata: { order } });
    const json = { type: 'token', data: 'first', metadata: { order: 'another' } };
    const byApi = await server.request('POST', '/tokens', { json, key: own.api_key });
    expect(Object.keys(raw.created)).toEqual(Object.keys(byApi.body));
    expect(raw.updated).toMatchObject({ id, modified_by: own.application_id, metadata: { order, note: 'x' } });
    expect(raw.retrieved).toEqual({ ...raw.updated, data: 'first' });
    expect(raw.tokenized).toEqual({ a: expect.any(String), b: null });
    expect(raw.detokenized).toEqual({ a: 'first', b: 1 });
    expect(raw.found).toMatchObject({ pagination: { total_items: 1 }, data: [raw.retrieved] });
    expect([raw.foundToo, raw.deleted]).toEqual([1, null]);
    expect(raw.gone.value).toBeUndefined();
    expect(raw.gone).toMatchObject({ name: 'Error', code: 'NOT_FOUND', status: 404 });
    const rows = await server.sql(`SELECT operation, actor_id FROM audit_log WHERE $1 = ANY(entity_ids) ORDER BY id`, [
      id,
    ]);
    expect(new Set(rows.map(({ actor_id }) => actor_id))).toEqual(new Set([own.application_id]));
    expect(rows.map(({ operation }) => operation)).toEqual([
      'create',
      'update',
      'read',
      'read',
      'read',
      'read',
      'delete',
    ]);
    expect((await usesOf(server, reactor.id)).map(({ actor_id }) => actor_id)).toEqual([weak.application_id]);
  });

  test('detokenize refuses an expression whose text came out of a token that the run opened', async () => {
    const reader = await application('token:read', 'token:use');
    const secret = await tokenOf(server, '4242424242424242');
    const text = `{{ ${secret} }}`;
    const [whole, deep, brace, begun] = await Promise.all([
      tokenOf(server, text),
      tokenOf(server, { note: `see ${text}.` }),
      tokenOf(server, '{'),
      tokenOf(server, `{{ ${secret}`),
    ]);
    const reactor = await withService(
      `const { id, opened } = args;
       if (args.retrieve) await svc.tokens.retrieve(args.retrieve);
       if (args.first) await svc.detokenize('{{ ' + args.first + ' }}');
       return { raw: await attempt(() => svc.detokenize({ a: [args.text ?? opened] })) };`,
      reader,
    );
    const result = (args: object) => rawOf(react(server, reactor, args));
    const refused = {
      code: 'INVALID_INPUT',
      status: 400,
      message: expect.stringContaining('a[0] must have no expression whose text came out of a token'),
    };
    expect(await result({ opened: `{{ ${whole} }}` })).toMatchObject(refused);
    expect(await result({ opened: `{{ ${deep} | json: '$.note' }}` })).toMatchObject(refused);
    expect(await result({ opened: `{{ ${brace} }}{ ${secret} }}` })).toMatchObject(refused);
    expect(await result({ opened: `{{ ${begun} }} }}` })).toMatchObject(refused);
    expect(await usesOf(server, secret)).toEqual([]);
    const byCode = await withService(
      `await svc.tokens.retrieve(args.carrier);
       const { note } = (await svc.detokenize({ note: '{{ ' + args.carrier + ' }}' }));
       return { raw: [await attempt(() => svc.detokenize({ a: note })), await attempt(() => svc.detokenize('{{ ' + args.other + ' }}'))] };`,
      reader,
    );
    const other = await tokenOf(server, 'harmless');
    const raw = await rawOf(react(server, byCode, { carrier: whole, other }));
    expect(raw[0]).toMatchObject({ code: 'INVALID_INPUT', status: 400 });
    expect(raw[1]).toEqual({ value: 'harmless' });
  });

  test('detokenize refuses member names and answers of destinations as it refuses values', async () => {
    const reader = await application('token:read', 'token:use');
    const secret = await tokenOf(server, '4242424242424242');
    const text = `{{ ${secret} }}`;
    const [named, carrier] = await Promise.all([tokenOf(server, { [text]: 1 }), tokenOf(server, text)]);
    const reactor = await withService(
      `if (args.opened) return { raw: await attempt(() => svc.detokenize(Object.keys(args.opened)[0])) };
       const headers = { 'svc-proxy-url': args.url, 'x-note': svc.expression(args.carrier, args.filter) };
       const answer = await svc.proxy.post({ headers });
       const [, note] = answer.body.headers.find(([name]) => name === 'x-note');
       return { raw: [note, await attempt(() => svc.detokenize([note]))] };`,
      reader,
    );
    const refused = { code: 'INVALID_INPUT', status: 400, message: expect.stringContaining('came out of a token') };
    expect(await rawOf(react(server, reactor, { opened: `{{ ${named} }}` }))).toMatchObject(refused);
    const back = await rawOf(react(server, reactor, { url: fixture.url, carrier }));
    expect(back).toEqual([text, expect.objectContaining(refused)]);
    const spelled = await tokenOf(server, text.toUpperCase());
    const changed = await rawOf(react(server, reactor, { url: fixture.url, carrier: spelled, filter: 'downcase' }));
    expect(changed).toEqual([text, expect.objectContaining(refused)]);
    expect(await usesOf(server, secret)).toEqual([]);
  });

  test('has the permissions of the application, not of the caller: else FORBIDDEN', async () => {
    const reader = await application('token:read');
    const id = await tokenOf(server, 'value');
    const reactor = await withService(
      `const { id } = args;
       return { raw: { read: (await svc.tokens.retrieve(id)).id, refused: await Promise.all([
         attempt(() => svc.tokens.create({ data: 'x' })), attempt(() => svc.tokenize('x')),
         attempt(() => svc.tokens.update(id, { metadata: {} })), attempt(() => svc.tokens.delete(id)),
         attempt(() => svc.tokens.search('type:token')),
       ]) } };`,
      reader,
    );
    const { read, refused } = await rawOf(react(server, reactor, { id }));
    expect(read).toBe(id);
    expect(refused.map(({ name, code, status }: any) => [name, code, status])).toEqual(
      Array.from({ length: 5 }, () => ['Error', 'FORBIDDEN', 403]),
    );
    expect(refused[0].message).toContain('token:create');
    expect((await server.request('GET', `/tokens/${id}`)).status).toBe(200);
  });

  test('does not know another tenant’s token, nor one that is nowhere, both alike', async () => {
    const own = await application('token:read', 'token:update', 'token:delete', 'token:search');
    const note = crypto.randomUUID();
    const theirs = await tokenOf(server, 'theirs', { metadata: { note } }, otherTenant.api_key);
    const reactor = await withService(
      `const { id } = args;
       return { raw: { found: (await svc.tokens.search('metadata.note:' + args.note)).data, refused: [
         await attempt(() => svc.tokens.retrieve(id)), await attempt(() => svc.tokens.update(id, { data: 'x' })),
         await attempt(() => svc.tokens.delete(id)), await attempt(() => svc.detokenize('{{ ' + id + ' }}')),
       ] } };`,
      own,
    );
    const unknown = crypto.randomUUID();
    const answers = [];
    for (const id of [theirs, unknown]) {
      const raw = await rawOf(react(server, reactor, { id, note }));
      expect(raw.found).toEqual([]);
      expect(raw.refused.map(({ code, status }: any) => [code, status])).toEqual([
        ['NOT_FOUND', 404],
        ['NOT_FOUND', 404],
        ['NOT_FOUND', 404],
        ['BAD_REQUEST', 400],
      ]);
      answers.push(JSON.stringify(raw).replaceAll(id, 'ID'));
    }
    expect(answers[0]).toBe(answers[1]);
    expect((await server.request('GET', `/tokens/${theirs}`, { key: otherTenant.api_key })).body.data).toBe('theirs');
  });

  test('says what is wrong by its place, as the API does', async () => {
    const own = await application('token:create', 'token:search');
    const reactor = await withService(
      `return { raw: [
         await attempt(() => svc.tokens.create({ type: 'card', data: { number: '1' } })),
         await attempt(() => svc.tokenize({ a: [{ type: 'nope', data: 1 }] })),
         await attempt(() => svc.tokens.search(5)), await attempt(() => svc.tokens.search('type:token', { size: 100000 })),
         await attempt(() => svc.tokenize('x'.repeat(1024 * 1024))),
       ] };`,
      own,
    );
    const raw = await rawOf(react(server, reactor));
    expect(raw.map(({ code, status }: any) => [code, status])).toEqual([
      ['INVALID_INPUT', 400],
      ['INVALID_INPUT', 400],
      ['INVALID_INPUT', 400],
      ['INVALID_INPUT', 400],
      ['PAYLOAD_TOO_LARGE', 413],
    ]);
    expect(raw[0].message).toContain('data.number');
    expect(raw[1].message).toContain('a[0].type');
    expect(raw[2].message).toContain('query');
    expect(raw[3].message).toContain('size');
  });

  test('searches with what POST /tokens/search takes, and refuses what that does not know', async () => {
    const own = await application('token:create', 'token:read', 'token:search');
    const reactor = await withService(
      `const { query } = args;
       for (const data of ['first', 'second']) await svc.tokens.create({ data, metadata: { run: args.run } });
       const page = await svc.tokens.search(query, { size: 1 });
       const { next: start } = page.pagination;
       return { raw: {
         pages: [page, await svc.tokens.search(query, { size: 1, start }), await svc.tokens.search({ query, size: 1, start })],
         refused: [
           await attempt(() => svc.tokens.search(query, { sizes: 1 })),
           await attempt(() => svc.tokens.search({ query, limit: 1 })),
           await attempt(() => svc.tokens.search({ query }, { limit: 1 })),
           await attempt(() => svc.tokens.search({ query, size: 0, offset: 5 })),
         ],
       } };`,
      own,
    );
    const run = crypto.randomUUID();
    const query = `metadata.run:${run}`;
    const { pages, refused } = await rawOf(react(server, reactor, { run, query }));
    const [one, other, again] = pages.map(({ data }: any) => data.map((token: any) => token.data));
    expect([...one, ...other].sort()).toEqual(['first', 'second']);
    expect(again).toEqual(other);
    const key = own.api_key;
    const byApi = await server.request('POST', '/tokens/search', { key, json: { query, sizes: 1 } });
    expect(byApi.body.errors).toEqual({ sizes: ['is not known here; did you mean `size`?'] });
    for (const { code, status } of refused) expect([code, status]).toEqual(['INVALID_INPUT', 400]);
    expect(refused[0].message).toContain('sizes is not known here; did you mean `size`?');
    expect(refused[1].message).toMatch(/limit is not known here; known are .*\.$/);
    expect(refused[2].message).toMatch(/limit is not known here; known are .*\.$/);
    expect(refused[3].message).toMatch(/size must be .*offset is not known here/);
  });

  test('may nothing any more when its application is deleted during the run', async () => {
    const path = '/application-gone';
    const doomed = await application('token:create');
    const reactor = await withService(
      `const before = await attempt(() => svc.tokenize('before'));
       await fetch('${fixture.url}${path}');
       return { raw: [typeof before.value, await attempt(() => svc.tokenize('after'))] };`,
      doomed,
    );
    fixture.routes.set(path, async (_request, response) => {
      const { status } = await server.request('DELETE', `/applications/${doomed.application_id}`);
      response.writeHead(status === 204 ? 200 : 500).end();
    });
    const [before, after] = await rawOf(react(server, reactor));
    expect(before).toBe('string');
    expect(after).toMatchObject({ code: 'FORBIDDEN', status: 403 });
  });

  test('is called 200 times in a run: the 201st is refused, and the 200 were done', async () => {
    const own = await application('token:read');
    const id = await tokenOf(server, 'value');
    const reactor = await withService(
      `const all = [];
       for (let n = 0; n < 201; n++) all.push(attempt(() => svc.tokens.retrieve(args.id)));
       const ends = await Promise.all(all);
       return { raw: [ends.filter((end) => end.value).length, ends.filter((end) => end.code === 'CALL_LIMIT').length, ends[200].code] };`,
      own,
    );
    expect(await rawOf(react(server, reactor, { id }))).toEqual([200, 1, 'CALL_LIMIT']);
    const [{ n }] = await server.sql(
      `SELECT count(*)::int AS n FROM audit_log WHERE $1 = ANY(entity_ids) AND operation = 'read' AND actor_id = $2`,
      [id, own.application_id],
    );
    expect(n).toBe(200);
  });

  test('works without a key: nothing that code can reach holds one', async () => {
    const own = await application('token:read');
    const reactor = await withService(
      `const found = []; const seen = new Set(); const left = [req, globalThis, module, require];
       for (const name of ['process', 'https', 'util', 'events', 'axios']) left.push(require(name));
       while (left.length > 0) {
         const at = left.pop();
         if (typeof at === 'string') { if (at.startsWith('svc' + '_test_')) found.push(at); continue; }
         if (at === null || (typeof at !== 'object' && typeof at !== 'function') || seen.has(at)) continue;
         seen.add(at);
         left.push(Object.getPrototypeOf(at));
         for (const key of Reflect.ownKeys(at)) { left.push(key); try { left.push(at[key]); } catch {} }
       }
       await fetch('${fixture.url}/without-key');
       return { raw: { found, count: seen.size, environment: Object.keys(process.env) } };`,
      own,
    );
    // The walk finds what is there to be found.
    const raw = await rawOf(react(server, reactor, { planted: 'svc_test_planted' }));
    expect(raw.found).toEqual(['svc_test_planted']);
    expect(raw.count).toBeGreaterThan(500);
    expect(raw.environment).toEqual(['NODE_ENV']);
    const sent = JSON.stringify(fixture.receivedAt('/without-key'));
    expect(sent).toContain('/without-key');
    for (const { api_key } of [own, server.tenant]) expect(sent + JSON.stringify(raw)).not.toContain(api_key);
  });
});

describe('a request of the code', () => {
  test.each<[string, string]>([
    [
      'fetch',
      `const response = await fetch(url, { method: 'POST', headers, body });
       return { raw: { status: response.status, type: response.headers.get('content-type'), sent: await response.json() } };`,
    ],
    [
      'https.request',
      `const response = await new Promise((resolve, reject) => {
         const request = require('https').request(url, { method: 'POST', headers }, resolve);
         request.on('error', reject); request.end(body);
       });
       let text = ''; for await (const piece of response) text += piece;
       return { raw: { status: response.statusCode, type: response.headers['content-type'], sent: JSON.parse(text) } };`,
    ],
    [
      'axios',
      `const response = await require('axios').post(url, body, { headers });
       return { raw: { status: response.status, type: response.headers['content-type'], sent: response.data } };`,
    ],
    [
      'node-fetch',
      `const response = await require('node-fetch')(url, { method: 'POST', headers, body });
       return { raw: { status: response.status, type: response.headers.get('content-type'), sent: await response.json() } };`,
    ],
  ])('by %s arrives over TLS as it was meant, and its answer comes back', async (name, body) => {
    const path = `/by-${name}`;
    const raw = await rawOf(
      runBody(
        server,
        `const url = args.url; const headers = { 'X-Order': '7', 'Content-Type': 'application/json' };
         const body = JSON.stringify({ amount: 1250, name: 'Zoë' }); ${body}`,
        { url: `${fixture.url}${path}?a=b%20c` },
      ),
    );
    expect(raw).toMatchObject({ status: 200, type: 'application/json' });
    const [received] = fixture.receivedAt(path);
    expect(fixture.receivedAt(path)).toHaveLength(1);
    expect(received).toMatchObject({ method: 'POST', url: `${path}?a=b%20c`, servername: 'upstream.test' });
    expect(received?.body.toString('utf8')).toBe('{"amount":1250,"name":"Zoë"}');
    expect(headersOf(raw.sent)).toMatchObject({ 'x-order': '7', 'content-type': 'application/json' });
    expect(raw.sent).toMatchObject({ method: 'POST', url: `${path}?a=b%20c` });
  });

  test('has its answer’s status, headers and bytes, unpacked', async () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    fixture.routes.set('/packed', (_request, response) => {
      response.writeHead(402, { 'content-encoding': 'gzip', 'x-shop': 'a', 'svc-trace-id': 'forged' });
      response.end(gzipSync(bytes));
    });
    const raw = await rawOf(
      runBody(
        server,
        `const response = await fetch('${fixture.url}/packed');
         const { status, ok, redirected, url } = response;
         return { raw: { status, ok, redirected, url, shop: response.headers.get('x-shop'), trace: response.headers.get('svc-trace-id'),
           bytes: Buffer.from(await response.arrayBuffer()).toString('base64') } };`,
      ),
    );
    expect(raw).toEqual({
      status: 402,
      ok: false,
      redirected: false,
      url: `${fixture.url}/packed`,
      shop: 'a',
      trace: null,
      bytes: bytes.toString('base64'),
    });
  });

  test('carries no header in the name of the vault', async () => {
    await rawOf(
      runBody(
        server,
        `await fetch('${fixture.url}/names', { headers: { 'SVC-API-KEY': 'x', 'svc-proxy-key': 'y', 'proxy-authorization': 'z', 'x-fine': '1' } });
         return {};`,
      ),
    );
    const headers = headersOf(fixture.receivedAt('/names')[0] as any);
    expect(headers['x-fine']).toBe('1');
    expect(Object.keys(headers).filter((name) => /^(svc|proxy)-/.test(name))).toEqual([]);
  });

  test('is allowed 50 times in a run: the 51st is refused and not sent', async () => {
    const raw = await rawOf(
      runBody(
        server,
        `${TRY} const all = [];
         for (let n = 0; n < 51; n++) all.push(attempt(async () => (await fetch('${fixture.url}/count')).status));
         const ends = await Promise.all(all);
         return { raw: [ends.filter((end) => end.value === 200).length, ends[50]] };`,
      ),
    );
    expect(raw).toEqual([50, { name: 'TypeError', cause: 'CALL_LIMIT', message: 'fetch failed' }]);
    expect(fixture.receivedAt('/count')).toHaveLength(50);
  });

  test('takes in 5 MB of an answer, packed or not, and not a byte more', async () => {
    const limit = 5 * 1024 * 1024;
    const sized = (size: number, isPacked: boolean) => (_request: unknown, response: any) => {
      const bytes = Buffer.alloc(size, 'x');
      if (isPacked) response.setHeader('content-encoding', 'gzip');
      response.end(isPacked ? gzipSync(bytes) : bytes);
    };
    fixture.routes.set('/most', sized(limit, false));
    fixture.routes.set('/more', sized(limit + 1, false));
    fixture.routes.set('/bomb', sized(20 * limit, true));
    const ask = (path: string) =>
      `await attempt(async () => (await (await fetch('${fixture.url}${path}')).arrayBuffer()).byteLength)`;
    const raw = await rawOf(
      runBody(server, `${TRY} return { raw: [${['/most', '/more', '/bomb'].map(ask).join()}] };`),
    );
    expect(raw[0]).toEqual({ value: limit });
    expect(raw.slice(1).map(({ name, cause }: any) => [name, cause])).toEqual([
      ['TypeError', 'BODY_TOO_LARGE'],
      ['TypeError', 'BODY_TOO_LARGE'],
    ]);
  });

  test('that is under way when the code returns is ended, and holds up no answer', async () => {
    const [begun, ended] = [gate(), gate()];
    fixture.routes.set('/hang', (_request, response) => {
      response.once('close', ended.open);
      begun.open();
    });
    fixture.routes.set('/begun', async (_request, response) => {
      await begun.opened;
      response.end();
    });
    const answer = await runBody(
      server,
      `fetch('${fixture.url}/hang').catch(() => {}); await fetch('${fixture.url}/begun'); return { raw: 'done' };`,
    );
    expect([answer.status, answer.body.raw]).toEqual([200, 'done']);
    await ended.opened;
  });

  test.each([
    ['https://127.0.0.1/', 'DESTINATION_REFUSED: The destination must be named by a host name, not by an address.'],
    ['https://inside.test/', 'DESTINATION_REFUSED: The destination must be on the public internet.'],
    ['https://nowhere.example/', 'DNS: The name of the destination could not be resolved.'],
  ])('of %s that fails and is not caught is a 500 that says why', async (url, reason) => {
    for (const body of [
      `await fetch('${url}');`,
      `try { await fetch('${url}'); } catch (error) { const { ReactorRuntimeError } = require('@svc/reactor-formulas-sdk'); throw new ReactorRuntimeError(error); }`,
    ]) {
      const { status, detail, errors } = problemOf(await runBody(server, body));
      expect([status, detail]).toEqual([500, 'Reactor Runtime Error']);
      expect(errors.error[0]).toMatch(new RegExp(`^fetch failed \\(${reason.replaceAll('.', '\\.')}`));
    }
  });

  test('whose connection the destination closes is a 500 that says so', async () => {
    fixture.routes.set('/cut', (request) => void request.socket.destroy());
    const { errors } = problemOf(await runBody(server, `await fetch('${fixture.url}/cut');`));
    expect(errors.error).toEqual([
      'fetch failed (RESET: The destination closed the connection. It may have acted on the request.)',
    ]);
  });

  test('carries the reason also where code changed the error', async () => {
    const body = `try { await fetch('https://127.0.0.1/'); } catch (error) { error.cause.message = 'forged'; error.cause.code = 'FORGED'; throw error; }`;
    const { errors } = problemOf(await runBody(server, body));
    expect(errors.error[0]).toContain('(DESTINATION_REFUSED: The destination must be named by a host name');
    expect(errors.error[0]).not.toContain('FORGED');
  });
});

describe('a redirect', () => {
  const redirect = (path: string, status: number, location: string) =>
    fixture.routes.set(path, (_request, response) => void response.writeHead(status, { location }).end());

  test('is followed by fetch as its status says, without credentials or body to another host', async () => {
    redirect('/found', 302, '/landed-here');
    redirect('/kept', 307, `${fixture.otherUrl}/landed-there`);
    redirect('/away', 302, `${fixture.otherUrl}/landed-there`);
    const raw = await rawOf(
      runBody(
        server,
        `const ask = async (path) => {
           const response = await fetch('${fixture.url}' + path, { method: 'POST', headers: { authorization: 'Bearer x', 'x-fine': '1' }, body: 'words' });
           return { url: response.url, redirected: response.redirected, sent: await response.json() };
         };
         const refused = await ask('/kept').catch((error) => String(error.cause?.message ?? error.message));
         return { raw: [await ask('/found'), await ask('/away'), refused] };`,
      ),
    );
    expect(raw[0]).toMatchObject({
      url: `${fixture.url}/landed-here`,
      redirected: true,
      sent: { method: 'GET', body: '' },
    });
    expect(headersOf(raw[0].sent)).toMatchObject({ authorization: 'Bearer x', 'x-fine': '1' });
    expect(raw[1]).toMatchObject({ url: `${fixture.otherUrl}/landed-there`, sent: { method: 'GET', body: '' } });
    expect(headersOf(raw[1].sent)).toMatchObject({ 'cdn-loop': expect.any(String), accept: '*/*' });
    for (const name of ['x-fine', 'authorization']) expect(headersOf(raw[1].sent)).not.toHaveProperty(name);
    expect(raw[2]).toContain('its body is not sent there');
  });

  test('is left, refused or followed as the code says, and by the packages as they do', async () => {
    redirect('/once', 302, '/landed');
    const raw = await rawOf(
      runBody(
        server,
        `${TRY} const url = '${fixture.url}/once';
         return { raw: {
           manual: (await fetch(url, { redirect: 'manual' })).status,
           error: (await attempt(() => fetch(url, { redirect: 'error' }))).cause,
           request: await new Promise((resolve) => require('https').get(url, (response) => resolve(response.statusCode))),
           axios: (await require('axios').get(url)).data.url,
           nodeFetch: (await require('node-fetch')(url)).url,
         } };`,
      ),
    );
    expect(raw).toEqual({
      manual: 302,
      error: 'REDIRECT_REFUSED',
      request: 302,
      axios: '/landed',
      nodeFetch: `${fixture.url}/landed`,
    });
  });

  test('is followed five times, and not a sixth', async () => {
    for (let left = 6; left > 0; left -= 1) redirect(`/hop-${left}`, 302, `/hop-${left - 1}`);
    const raw = await rawOf(
      runBody(
        server,
        `${TRY} const ask = (n) => attempt(async () => (await fetch('${fixture.url}/hop-' + n)).url);
         return { raw: [await ask(5), (await ask(6)).cause] };`,
      ),
    );
    expect(raw).toEqual([{ value: `${fixture.url}/hop-0` }, 'TOO_MANY_REDIRECTS']);
    expect(fixture.receivedAt('/hop-0')).toHaveLength(1);
  });

  test('to where no request may go is refused like that request, and connects to nothing', async () => {
    const targets = [
      `https://inside.test:${decoy.port}/`,
      `https://127.0.0.1:${decoy.port}/`,
      `https://[::1]:${decoy.port}/`,
      `https://metadata.test/`,
      `http://upstream.test:${fixture.upstream.port}/`,
      `https://upstream.test:${decoy.port}/`,
      `//localhost:${decoy.port}/`,
      'file:///etc/passwd',
      server.base_url,
    ];
    for (const [index, target] of targets.entries()) redirect(`/trap-${index}`, 302, target);
    const before = decoy.connectionCount();
    const raw = await rawOf(
      runBody(
        server,
        `${TRY} const all = [];
         for (let n = 0; n < ${targets.length}; n++) {
           all.push((await attempt(() => fetch('${fixture.url}/trap-' + n))).cause);
           all.push(typeof (await attempt(() => require('axios').get('${fixture.url}/trap-' + n))).value);
           all.push(typeof (await attempt(() => require('node-fetch')('${fixture.url}/trap-' + n))).value);
         }
         return { raw: all };`,
      ),
    );
    expect(raw).toEqual(targets.flatMap(() => ['DESTINATION_REFUSED', 'undefined', 'undefined']));
    expect(decoy.connectionCount()).toBe(before);
  });
});

describe('where code may not go', () => {
  const hosts = () => {
    const { port } = decoy;
    return [
      // Loopback, link-local and any, as addresses and in every spelling of one.
      `127.0.0.1:${port}`,
      `127.1:${port}`,
      `0x7f.1:${port}`,
      `0177.0.0.1:${port}`,
      `2130706433:${port}`,
      `0.0.0.0:${port}`,
      `[::1]:${port}`,
      `[::]:${port}`,
      `[::ffff:127.0.0.1]:${port}`,
      `[::ffff:7f00:1]:${port}`,
      `[fe80::1]:${port}`,
      '169.254.169.254',
      '10.0.0.1',
      `①②⑦.⓪.⓪.①:${port}`,
      `127。0。0。1:${port}`,
      // Names of this machine, and names that lead inside.
      `localhost:${port}`,
      `LOCALHOST.:${port}`,
      `ⓛocalhost:${port}`,
      `inside.test:${port}`,
      `INSIDE.TEST.:${port}`,
      `half.test:${port}`,
      `mapped.test:${port}`,
      `six.test:${port}`,
      'metadata.test',
      // A host that is vouched for, at a port that is not; ports of other protocols; the vault itself.
      `upstream.test:${port}`,
      'upstream.test:22',
      'upstream.test:6379',
      new URL(server.base_url).host,
      'vault.test',
      'VAULT.test.',
    ];
  };

  test('by fetch: it is refused, and nothing was connected to', async () => {
    const before = [decoy.connectionCount(), fixture.upstream.received.length];
    const raw = await rawOf(
      runBody(
        server,
        `${TRY} const all = {};
         for (const host of args) { const end = await attempt(() => fetch('https://' + host + '/secret')); all[host] = [end.name, end.cause]; }
         return { raw: all };`,
        hosts(),
      ),
    );
    expect(raw).toEqual(Object.fromEntries(hosts().map((host) => [host, ['TypeError', 'DESTINATION_REFUSED']])));
    expect([decoy.connectionCount(), fixture.upstream.received.length]).toEqual(before);
  });

  test('by https.request, with every option that names the destination', async () => {
    const before = [decoy.connectionCount(), fixture.upstream.received.length];
    const { port } = decoy;
    const options = [
      ...hosts().map((host) => `https://${host}/secret`),
      { hostname: '127.0.0.1', port },
      { host: '::1', port },
      { hostname: 'upstream.test', port: `${fixture.upstream.port}@127.0.0.1:${port}` },
      { hostname: 'upstream.test', path: `@127.0.0.1:${port}/` },
      { hostname: `127.0.0.1:${port}/#` },
      { socketPath: '/run/postgresql/.s.PGSQL.5432', path: '/' },
    ];
    const raw = await rawOf(
      runBody(
        server,
        `const ask = (given) => new Promise((resolve) => {
           try { const request = require('https').request(given, () => resolve('answered')); request.on('error', () => resolve('refused')); request.end(); }
           catch { resolve('refused'); }
         });
         const all = []; for (const given of args) all.push(await ask(given)); return { raw: all };`,
        options,
      ),
    );
    expect(raw).toEqual(options.map(() => 'refused'));
    expect([decoy.connectionCount(), fixture.upstream.received.length]).toEqual(before);
  });

  test('by another protocol, with credentials, or by what is no URL', async () => {
    const { port } = fixture.upstream;
    const urls = [
      `http://upstream.test:${port}/`,
      `ws://upstream.test:${port}/`,
      `ftp://upstream.test/`,
      'file:///etc/passwd',
      'unix:/run/postgresql/.s.PGSQL.5432',
      'data:text/plain,words',
      'blob:https://upstream.test/x',
      `https://user:word@upstream.test:${port}/`,
      `https://upstream.test:${port}@127.0.0.1:${decoy.port}/`,
      `//upstream.test:${port}/`,
      '/etc/passwd',
      '',
    ];
    const before = [decoy.connectionCount(), fixture.upstream.received.length];
    const raw = await rawOf(
      runBody(
        server,
        `${TRY} const all = []; for (const url of args) all.push((await attempt(() => fetch(url))).name); return { raw: all };`,
        urls,
      ),
    );
    expect(raw).toEqual(urls.map(() => 'TypeError'));
    expect([decoy.connectionCount(), fixture.upstream.received.length]).toEqual(before);
  });

  test('by a name that moves inside between two requests: each connection is to a checked address', async () => {
    const moving = 'moving.upstream.test';
    fixture.routes.set('/moving', (_request, response) => {
      addresses.set(moving, ['169.254.169.254']);
      response.writeHead(200, { connection: 'close' }).end();
    });
    addresses.set(moving, ['127.0.0.1']);
    const raw = await rawOf(
      runBody(
        server,
        `${TRY} const ask = () => attempt(async () => (await fetch('${fixture.movingUrl}/moving')).status);
         return { raw: [await ask(), (await ask()).cause] };`,
      ),
    );
    expect(raw).toEqual([{ value: 200 }, 'DESTINATION_REFUSED']);
    expect(lookups.filter((host) => host === moving)).toHaveLength(2);
    expect(fixture.receivedAt('/moving')).toHaveLength(1);
  });
});

describe('the console', () => {
  const TALK = `console.log('card %s of', '4242 4242 4242 4242', { n: 1 }); console.error('4242424242424242'); console.debug('12345'); return { raw: 1 };`;

  test('comes back from a development server, in its order, what looks like a card number masked', async () => {
    expect((await runBody(server, TALK)).body).toEqual({
      raw: 1,
      logs: [
        { level: 'log', text: 'card XXXX XXXX XXXX 4242 of { n: 1 }' },
        { level: 'error', text: 'XXXXXXXXXXXX4242' },
        { level: 'debug', text: '12345' },
      ],
    });
    expect((await runBody(server, 'return { raw: 1 };')).body).toEqual({ raw: 1 });
  });

  test('says nothing on a production server, neither to the caller nor in the log', async () => {
    const production = await startReactorServer({ NODE_ENV: 'production', LOG_LEVEL: 'debug' });
    try {
      const answer = await runBody(production.server, TALK);
      expect(answer.body).toEqual({ raw: 1 });
      // Ids are drawn, and may hold the digits.
      const lines = production.server.logLines.join('').replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '');
      expect(withoutDrawn(lines)).not.toMatch(/4242|card %s|card XXXX/);
    } finally {
      await production.close();
    }
  });
});

/** What is kept of a run that failed, and when a key is free again: react-idempotency.test.ts. */
describe('an idempotency key', () => {
  test('calls out once for 20 identical requests at once, and all of them hear the same', async () => {
    fixture.routes.set('/charge', (_request, response) => void setTimeout(() => response.end(), 150));
    const reactor = await makeReactor(
      server,
      `await fetch('${fixture.url}/charge', { method: 'POST' }); return { raw: { charged: Math.random() }, tokenize: 'receipt' };`,
    );
    const headers = { 'svc-idempotency-key': 'charge-once' };
    const answers = await Promise.all(Array.from({ length: 20 }, () => react(server, reactor, { n: 1 }, { headers })));
    expect(fixture.receivedAt('/charge')).toHaveLength(1);
    const [done] = answers.filter(({ status }) => status === 200);
    expect(done).toBeDefined();
    for (const { status, text } of answers)
      if (status === 200) expect(text).toBe(done?.text);
      else expect(status).toBe(409);
    const again = await react(server, reactor, { n: 1 }, { headers });
    expect([again.status, again.text, again.headers.get('svc-idempotent-replayed')]).toEqual([200, done?.text, 'true']);
    expect(fixture.receivedAt('/charge')).toHaveLength(1);
    expect((await usesOf(server, reactor.id)).length).toBe(1);
  });
});

describe('a tenant', () => {
  test('has 128 runs at once: more are a 429 with Retry-After, and other tenants are served', async () => {
    const released = gate();
    fixture.routes.set('/wait', async (_request, response) => {
      await released.opened;
      response.end();
    });
    const busy = await server.newTenant();
    const waiting = await makeReactor(server, {
      code: codeOf(`await fetch('${fixture.url}/wait'); return { raw: 'done' };`),
      key: busy.api_key,
    });
    const theirs = await makeReactor(server, { code: codeOf('return { raw: args };'), key: otherTenant.api_key });
    const refused: number[] = [];
    const isFull = gate();
    const all = Array.from({ length: 140 }, async () => {
      const answer = await react(server, waiting, {}, { key: busy.api_key });
      if (answer.status !== 200) {
        expect(problemOf(answer)).toMatchObject({ status: 429, detail: expect.stringContaining('tenant') });
        expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
        refused.push(answer.status);
        if (refused.length === 12) isFull.open();
      }
      return answer.status;
    });
    await isFull.opened;
    expect(await rawOf(react(server, theirs, 'served', { key: otherTenant.api_key }))).toBe('served');
    released.open();
    const statuses = await Promise.all(all);
    expect(statuses.filter((status) => status === 200)).toHaveLength(128);
    expect(refused).toHaveLength(12);
    expect(await rawOf(react(server, waiting, {}, { key: busy.api_key }))).toBe('done');
  });
});
