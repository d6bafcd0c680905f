// Guarantees of the proxy and of `fetch` in code: memory, loops, broken bodies, and allowed hosts.
import { request as requestHttp } from 'node:http';
import type { ServerOptions } from 'node:https';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { certificateFor, expiredCertificateFor, selfSignedCertificateFor } from './support/certificates.ts';
import {
  delay,
  handled,
  type Message,
  nothingReaches,
  OK,
  pour,
  proxyErrorIn,
  proxyErrorOf,
  receiving,
  type SharedProxyFixture,
  soon,
  statusOf,
  until,
  useProxyFixture,
  valuesOf,
  type Wire,
} from './support/proxy.ts';
import {
  codeOf,
  makeReactor,
  rawOf,
  react,
  type ReactorServer,
  runBody,
  startReactorServer,
  tokenOf,
} from './support/reactors.ts';
import { startServerBefore, type TestServer, type TestTenant } from './support/server.ts';
import { askOnWire, askProxy, makeApplication, makeProxy } from './support/stored-proxies.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';
import { seeingAllTenants } from './support/database.ts';

const MEGABYTE = 1024 * 1024;

/** What becomes of each request of the code: a status, or the code of its error. */
const ASK = `const ask = (work) => work.then(({ status }) => status, (error) => error.cause?.code ?? error.status ?? error.code);`;

/** A destination that is bytes on a wire. */
let fixture: SharedProxyFixture;
/** A destination that is a server, and code that may reach it. */
let runner: ReactorServer;
beforeAll(async () => {
  fixture = await useProxyFixture();
  runner = await startReactorServer({ PUBLIC_HOSTS: 'vault.test' });
});
afterAll(async () => {
  await fixture.close();
  await runner.close();
});

const wires: Wire[] = [];
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const { socket } of wires.splice(0)) socket.destroy();
  for (const close of closers.splice(0).toReversed()) await close();
  fixture.destination.received.length = 0;
  fixture.destination.script = receiving(fixture.destination, OK);
  runner.routes.clear();
});

const connect = async (): Promise<Wire> => {
  const wire = await fixture.connect();
  wires.push(wire);
  return wire;
};

const openUpstream = async (tls?: ServerOptions): Promise<Upstream> => {
  const upstream = await startUpstream({
    hosts: ['one.test', 'two.test'],
    answer: (_, response) => void response.end('ok'),
    ...(tls && { tls }),
  });
  closers.push(() => upstream.close());
  return upstream;
};

const openServer = async (ports: Record<string, number>, environment: Record<string, string>): Promise<TestServer> => {
  const server = await startServerBefore(ports, environment);
  closers.push(() => server.close());
  return server;
};

const headOf = (type: string, bytes: number, ...lines: string[]): string =>
  fixture.head('POST /proxy', `Content-Type: ${type}`, `Content-Length: ${bytes}`, ...lines);

const send = (type: string, body: Uint8Array, ...lines: string[]): Promise<Message> => {
  const answered = async (): Promise<Message> => {
    const wire = await connect();
    wire.send(headOf(type, body.byteLength, ...lines));
    void pour(wire, body);
    return wire.message();
  };
  return handled(answered());
};

describe('memory', () => {
  test('callers who announce 10 MB and send 66 KB take no memory from others or their code', async () => {
    const others = [await fixture.server.newTenant(), await fixture.server.newTenant()];
    const otherTenant = await fixture.server.newTenant();
    const piece = Buffer.from(`{"a":"${'a'.repeat(66_000)}`);
    // By what they announce, the first four of each are a tenant's share, and two of these are all there is.
    for (const { api_key } of others)
      for (const megabytes of [2, 10, 10, 10, 10, 10, 10, 10]) {
        const wire = await connect();
        wire.send(headOf('application/json', megabytes * MEGABYTE, `SVC-API-KEY: ${api_key}`));
        wire.send(piece);
      }
    // What they sent has been read by then.
    await delay(300);
    const id = await tokenOf(fixture.server, 'the-value', {}, otherTenant.api_key);
    const bodyOf = (value: string) => Buffer.from(JSON.stringify({ pad: 'a'.repeat(80_000), value }));
    const answer = await send('application/json', bodyOf(`{{ ${id} }}`), `SVC-API-KEY: ${otherTenant.api_key}`);
    expect(statusOf(answer), answer.body.toString()).toBe(200);
    expect(fixture.last().body.equals(bodyOf('the-value'))).toBe(true);
    const code = codeOf(
      `${ASK} return { raw: await ask(fetch(args.url, { method: 'POST', body: 'a'.repeat(80_000) })) };`,
    );
    const reactor = await makeReactor(fixture.server, { code, key: otherTenant.api_key });
    const options = { key: otherTenant.api_key };
    expect(await rawOf(react(fixture.server, reactor, { url: fixture.url }, options))).toBe(200);
    expect(fixture.last().body.byteLength).toBe(80_000);
  });

  test('eight JSON bodies of 9 MB of a tenant at once arrive all, byte for byte', async () => {
    const bodies = Array.from({ length: 8 }, (_, index) =>
      Buffer.from(JSON.stringify({ index, pad: `${index}`.repeat(9 * MEGABYTE) })),
    );
    const answers = await Promise.all(bodies.map((body) => send('application/json', body)));
    expect(answers.map(statusOf)).toEqual(Array(8).fill(200));
    const arrived = fixture.destination.received.map(({ body }) => body).toSorted(Buffer.compare);
    expect(arrived).toHaveLength(8);
    for (const [index, body] of bodies.toSorted(Buffer.compare).entries())
      expect(arrived[index]?.equals(body), `${index}`).toBe(true);
  });

  test('a body beyond what is taken at all is 413, also where there is no room for it', async () => {
    const held: Wire[] = [];
    fixture.destination.script = async (wire, head) => {
      if (valuesOf(head, 'x-hold').length > 0) held.push(wire);
      await wire.body(head);
      if (!held.includes(wire)) wire.send(OK);
    };
    const large = Buffer.alloc(9 * MEGABYTE, 'a');
    const holding = Array.from({ length: 3 }, () => send('text/plain', large, 'X-Hold: 1'));
    await until(() => held.length === 3, 'three requests');
    const wire = await connect();
    wire.send(fixture.head('POST /proxy', 'Content-Type: text/plain', 'Transfer-Encoding: chunked'));
    void pour(wire, Buffer.alloc(33 * MEGABYTE, 'a'), { isChunked: true });
    expect(proxyErrorIn(await soon(wire.message(), 'the answer')).status).toBe(413);
    for (const each of held.splice(0)) each.send(OK);
    for (const answer of await Promise.all(holding)) expect(statusOf(answer)).toBe(200);
  });
});

describe('what comes back to where it was sent from, under a name that is not known as ours', () => {
  /** A front of this server that adds keys to every request. */
  const relay = (): void => {
    runner.upstream.received.length = 0;
    const { hostname, port } = new URL(runner.server.base_url);
    runner.routes.set('/proxy', (_request, response, { method, headers, body }) => {
      const kept = headers.filter(([name]) => !/^(?:host|content-length|transfer-encoding)$/i.test(name));
      const keys = { 'svc-api-key': runner.server.tenant.api_key, 'svc-proxy-url': `${runner.url}/end` };
      const again = requestHttp(
        { hostname, port, method, path: '/proxy', headers: { ...Object.fromEntries(kept), ...keys }, agent: false },
        (answer) => {
          response.writeHead(answer.statusCode ?? 500, answer.headers);
          answer.pipe(response);
        },
      );
      again.on('error', () => response.destroy());
      again.end(body);
    });
    runner.routes.set('/redirect', (_, response) => void response.writeHead(307, { location: '/proxy' }).end());
  };

  const BACK = 'The request came back to where it was sent from.';
  const expectRefused = (result: [status: number, text: string][], rounds: number): void => {
    for (const [status, text] of result) {
      expect(status).toBe(400);
      expect(JSON.parse(text).proxy_error.detail).toBe(BACK);
    }
    expect([runner.receivedAt('/proxy').length, runner.receivedAt('/end').length]).toEqual([rounds, 0]);
  };

  const fetches: [name: string, code: string][] = [
    ['fetch', `const response = await fetch(url); return [response.status, await response.text()];`],
    [
      'fetch by way of a redirect',
      `const response = await fetch(url.replace('/proxy', '/redirect')); return [response.status, await response.text()];`,
    ],
    [
      'fetch with a mark of its own',
      `const response = await fetch(url, { headers: { 'CDN-Loop': 'mine' } }); return [response.status, await response.text()];`,
    ],
    [
      'fetch with a Connection that names the mark',
      `const response = await fetch(url, { headers: { connection: 'cdn-loop' } }); return [response.status, await response.text()];`,
    ],
    [
      'https.request with a Connection that names the mark',
      `const answer = await new Promise((resolve, reject) =>
         require('https').request(url, { headers: { Connection: 'CDN-Loop' } }, resolve).on('error', reject).end());
       let text = ''; for await (const piece of answer) text += piece;
       return [answer.statusCode, text];`,
    ],
  ];
  for (const [name, code] of fetches)
    test(`by ${name} of a reactor or a transform goes round once and is 400`, async () => {
      relay();
      const asked = `const outcome = await (async (url) => { ${code} })('${runner.url}/proxy');`;
      const raw = await rawOf(runBody(runner.server, `${asked} return { raw: outcome };`));
      expectRefused([raw], 1);
      const transform = { code: codeOf(`${asked} return { body: outcome, headers: {} };`) };
      for (const side of ['request_transform', 'response_transform']) {
        const proxy = await makeProxy(runner.server, { destination_url: `${runner.url}/echo`, [side]: transform });
        const result = await askProxy(runner.server, proxy, { json: {} });
        expect(result.status, result.text).toBe(200);
        const sent =
          side === 'request_transform' ? (runner.upstream.received.at(-1)?.body.toString() ?? '') : result.text;
        expectRefused([JSON.parse(sent)], side === 'request_transform' ? 2 : 3);
      }
    });

  test('by svc.proxy of a reactor goes round once and is 400', async () => {
    relay();
    const { id } = await makeApplication(runner.server, { permissions: ['token:use'] });
    const code = codeOf(
      `const { status, body } = await svc.proxy.get({ headers: { 'svc-proxy-url': args.url } });
       return { raw: [status, JSON.stringify(body)] };`,
    );
    const reactor = await makeReactor(runner.server, { code, application: { application_id: id } });
    expectRefused([await rawOf(react(runner.server, reactor, { url: `${runner.url}/proxy` }))], 1);
  });
});

test('code of an application with allowed_hosts reaches no other host by fetch or svc.proxy', async () => {
  const wanted = { permissions: ['token:use'], allowed_hosts: ['other.upstream.test'] };
  const { id } = await makeApplication(runner.server, wanted);
  const proxy = await makeProxy(runner.server, { destination_url: `${runner.url}/forbidden` });
  const otherProxy = await makeProxy(runner.server, { destination_url: `${runner.otherUrl}/allowed` });
  runner.routes.set('/redirect', (_, response) => {
    response.writeHead(302, { location: `${runner.url}/forbidden` }).end();
  });
  const code = codeOf(
    `${ASK} const { url, otherUrl } = args;
     const by = (headers) => ask(svc.proxy.get({ headers }));
     return { raw: [
       await ask(fetch(otherUrl + '/allowed')), await by({ 'svc-proxy-url': otherUrl }), await by({ 'svc-proxy-key': args.otherKey }),
       await ask(fetch(url + '/forbidden')), await ask(fetch(otherUrl + '/redirect')),
       await by({ 'svc-proxy-url': url + '/forbidden' }), await by({ 'svc-proxy-key': args.key }),
     ] };`,
  );
  const reactor = await makeReactor(runner.server, { code, application: { application_id: id } });
  const args = { url: runner.url, otherUrl: runner.otherUrl, key: proxy.key, otherKey: otherProxy.key };
  expect(await rawOf(react(runner.server, reactor, args))).toEqual([
    200,
    200,
    200,
    'DESTINATION_REFUSED',
    'DESTINATION_REFUSED',
    400,
    400,
  ]);
  expect(runner.receivedAt('/forbidden')).toEqual([]);
});

describe('a caller', () => {
  const answers: [name: string, head: string, first: string][] = [
    ['in chunks', 'Transfer-Encoding: chunked', '5\r\nhello\r\n'],
    ['with a length', 'Content-Length: 100000', 'hello'],
  ];
  for (const [name, line, first] of answers)
    for (const garbage of ['nonsense\r\n', 'ffffffffffffffffff\r\n', 'GET /proxy HTTP/1.1\r\nHost: x\r\n\r\n'])
      test(`that turns malformed once an answer began ${name} is cut: ${JSON.stringify(garbage)}`, async () => {
        let isWhole: boolean | undefined;
        fixture.destination.script = async (wire, head) => {
          wire.send(`HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n${line}\r\n\r\n${first}`);
          ({ isWhole } = await wire.body(head));
        };
        const wire = await connect();
        let all = '';
        wire.socket.on('data', (piece: Buffer) => (all += piece.toString('latin1')));
        wire.send(fixture.head('POST /proxy', 'Content-Type: application/octet-stream', 'Transfer-Encoding: chunked'));
        wire.send('2\r\nok\r\n');
        await wire.upTo('hello');
        wire.send(garbage);
        await soon(wire.closed, 'the end of the connection');
        expect(all.match(/HTTP\/1\.1/g)).toHaveLength(1);
        expect(
          all
            .split('\r\n\r\n')[1]
            ?.replace(/^5\r\n/, '')
            .trimEnd(),
        ).toBe('hello');
        await until(() => isWhole !== undefined, 'the end of the request');
        expect(isWhole).toBe(false);
      });

  const leaving: [name: string, start: string, lines: string[], body: string][] = [
    ['without a body', 'GET /proxy', [], ''],
    ['with a body', 'POST /proxy', ['Content-Type: text/plain', 'Content-Length: 5'], 'hello'],
    ['with a body of bytes', 'POST /proxy', ['Content-Type: image/png', 'Content-Length: 5'], 'hello'],
  ];
  for (const [name, start, lines, body] of leaving)
    test(`who leaves while its API key is looked up has nothing sent: ${name}`, async () => {
      const { api_key } = await fixture.server.newTenant();
      const bytes = fixture.head(start, `SVC-API-KEY: ${api_key}`, ...lines) + body;
      const sql = new Client({ connectionString: fixture.server.databaseUrl, ...seeingAllTenants });
      await sql.connect();
      closers.push(() => sql.end());
      const isWaiting = async (): Promise<boolean> => {
        const waiting = `SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'api_keys'::regclass`;
        return (await sql.query(waiting)).rowCount !== 0;
      };
      await nothingReaches(fixture, async () => {
        await sql.query('BEGIN');
        await sql.query('LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE');
        const wire = await connect();
        wire.send(bytes);
        const endMs = performance.now() + 10_000;
        while (!(await isWaiting())) if (performance.now() > endMs) throw new Error('the key was not looked up');
        wire.socket.destroy();
        await delay(100);
        await sql.query('ROLLBACK');
        await delay(300);
      });
      // The key is as good as any.
      expect(statusOf(await fixture.ask(bytes))).toBe(200);
    });
});

describe('the JSON of a request', () => {
  const SEE = `await fetch(configuration.SEEN, { method: 'POST', body: JSON.stringify(args.body) });`;
  const make = (more = '') =>
    makeProxy(runner.server, {
      destination_url: `${runner.url}/to`,
      configuration: { SEEN: `${runner.url}/seen` },
      request_transform: { code: codeOf(`${SEE} return { body: args.body, headers: { ...args.headers ${more} } };`) },
    });
  const headers = { 'content-type': 'application/json' };
  const result = (path: string) => runner.receivedAt(path).map(({ body }) => body.toString());
  afterEach(() => {
    runner.upstream.received.length = 0;
  });

  test.each([
    ['{"amount":1000,"amount":1}', 'body.amount'],
    ['{"a":[{"amount":1,"\\u0061mount":1000}]}', 'body.a[0].amount'],
    ['[{"a":{"a":2,"a":3}}]', 'body[0].a.a'],
    ['{"amount":1e400,"amount":1}', 'body.amount'],
  ])('with one key twice is 400 where code sees it, and nothing runs or is sent: %s', async (body, place) => {
    const answer = await askProxy(runner.server, await make(), { headers, body });
    expect(proxyErrorOf(answer).errors).toEqual({ [place]: ['must not be there twice in one object'] });
    expect([answer.status, result('/seen'), result('/to')]).toEqual([400, [], []]);
  });

  test('with one key twice goes on byte for byte where no code sees it', async () => {
    const proxy = await makeProxy(runner.server, { destination_url: `${runner.url}/to` });
    const body = '{"amount":1000,"amount":1}';
    expect((await askProxy(runner.server, proxy, { headers, body })).status).toBe(200);
    expect(result('/to')).toEqual([body]);
  });

  test.each([
    ['{"amount":1e400}', 'body.amount'],
    ['{"amount":12345678901234567890}', 'body.amount'],
    ['{"a":[{"b":0.12345678901234567890123}]}', 'body.a[0].b'],
    ['[1,-1e999]', 'body[1]'],
    ['12345678901234567890', 'body'],
  ])('with a number that a double does not hold is 400, and nothing runs or is sent: %s', async (body, place) => {
    const answer = await askProxy(runner.server, await make(), { headers, body });
    expect(proxyErrorOf(answer).errors).toEqual({
      [place]: ['must be a number that a double holds exactly, or a string'],
    });
    expect([answer.status, result('/seen'), result('/to')]).toEqual([400, [], []]);
  });
});

describe('an answer to svc.proxy', () => {
  const given = async (headers: Record<string, string | string[]>, body: Buffer | string, status = 200) => {
    runner.routes.set('/answer', (_, response) => void response.writeHead(status, headers).end(body));
    const { id } = await makeApplication(runner.server, { permissions: ['token:use'] });
    const code = codeOf(`return { raw: await svc.proxy.get({ headers: { 'svc-proxy-url': args.url } }) };`);
    const reactor = await makeReactor(runner.server, { code, application: { application_id: id } });
    return rawOf(react(runner.server, reactor, { url: `${runner.url}/answer` }));
  };

  test('that calls itself JSON and is none reaches the code as its text, with its status', async () => {
    const raw = await given({ 'content-type': 'application/json' }, 'try later', 503);
    expect(raw).toMatchObject({ status: 503, body: 'try later', headers: { 'content-type': 'application/json' } });
  });

  test('in latin1 is read as latin1', async () => {
    const raw = await given({ 'content-type': 'text/plain; charset=ISO-8859-1' }, Buffer.from('caf\xe9', 'latin1'));
    expect(raw).toMatchObject({ status: 200, body: 'caf\u00e9' });
  });

  test.each<[string, string, Buffer]>([
    ['UTF-16 with a byte order mark', 'text/plain', Buffer.from('\ufeffcaf\u00e9', 'utf16le')],
    ['UTF-16 that says so', 'text/plain; charset=utf-16', Buffer.from('caf\u00e9', 'utf16le')],
    ['ISO-8859-2', 'text/plain; charset=ISO-8859-2', Buffer.from('caf\xe9', 'latin1')],
  ])('in %s is read as that, and says that it is in UTF-8 where code hands it on', async (_what, type, body) => {
    const raw = await given({ 'content-type': type }, body);
    expect(raw).toMatchObject({
      status: 200,
      body: 'caf\u00e9',
      headers: { 'content-type': 'text/plain; charset=utf-8' },
    });
  });

  test('in a charset that is unknown reaches the code all the same', async () => {
    const raw = await given({ 'content-type': 'text/plain; charset=x-own' }, 'cafe');
    expect(raw).toMatchObject({ status: 200, body: 'cafe', headers: { 'content-type': 'text/plain; charset=x-own' } });
  });

  test('with two cookies has a list of them, and a list with one', async () => {
    expect(
      (await given({ 'set-cookie': ['a=1', 'b=2; Expires=Wed, 01 Jan 2031 00:00:00 GMT'] }, '')).headers,
    ).toMatchObject({
      'set-cookie': ['a=1', 'b=2; Expires=Wed, 01 Jan 2031 00:00:00 GMT'],
    });
    expect((await given({ 'set-cookie': 'a=1' }, '')).headers).toMatchObject({ 'set-cookie': ['a=1'] });
  });
});

describe('what the operator allows', () => {
  /** What becomes of each URL by the proxy, by a stored one, and by the code of a reactor. */
  const outcomes = async (server: TestServer, urls: string[]) => {
    const direct: number[] = [];
    for (const url of urls)
      direct.push((await askOnWire(server, 'GET', '/proxy', { headers: { 'svc-proxy-url': url } })).status);
    const stored: number[] = [];
    for (const url of urls)
      stored.push((await server.request('POST', '/proxies', { json: { name: 'x', destination_url: url } })).status);
    const code = `${ASK} const outcome = []; for (const url of args) outcome.push(await ask(fetch(url))); return { raw: outcome };`;
    return { direct, stored, fetched: await rawOf(runBody(server, code, urls)) };
  };
  const FIRST_ALONE = { direct: [200, 400], stored: [201, 400], fetched: [200, 'DESTINATION_REFUSED'] };

  test('PROXY_ALLOWED_HOSTS narrows the proxy and the fetch of code', async () => {
    const { port, received } = await openUpstream();
    const urls = [`https://one.test:${port}/`, `https://two.test:${port}/`];
    const ports = { 'one.test': port, 'two.test': port };
    expect(await outcomes(await openServer(ports, { PROXY_ALLOWED_HOSTS: 'one.test' }), urls)).toEqual(FIRST_ALONE);
    expect(received.map(({ servername }) => servername)).toEqual(['one.test', 'one.test']);
  });

  test('PROXY_PORTS narrows the proxy and the fetch of code', async () => {
    const [one, two] = [await openUpstream(), await openUpstream()];
    const urls = [`https://one.test:${one.port}/`, `https://two.test:${two.port}/`];
    const ports = { 'one.test': one.port, 'two.test': two.port };
    expect(await outcomes(await openServer(ports, { PROXY_PORTS: `443,${one.port}` }), urls)).toEqual(FIRST_ALONE);
    expect([one.received.length, two.connectionCount()]).toEqual([2, 0]);
  });
});

describe('the fetch of code', () => {
  const bodyless = `${ASK} return { raw: await ask(fetch(args.url, { method: 'POST', body: 'secret' })) };`;

  const insecure: [name: string, tls: ServerOptions][] = [
    ['signed by an unknown authority', selfSignedCertificateFor('bad.test')],
    ['of yesterday', expiredCertificateFor('bad.test')],
    ['of another name', certificateFor('good.test')],
  ];
  for (const [name, tls] of insecure)
    test(`to a certificate ${name} fails as TLS, and nothing of the request is read`, async () => {
      const upstream = await openUpstream(tls);
      const server = await openServer({ 'bad.test': upstream.port }, {});
      const url = `https://bad.test:${upstream.port}/`;
      expect(await rawOf(runBody(server, bodyless, { url }))).toBe('TLS');
      expect(upstream.received).toEqual([]);
    });

  test('to a destination that resets the connection fails as RESET, and is made once', async () => {
    let asked = 0;
    fixture.destination.script = async (wire) => {
      asked += 1;
      wire.socket.resetAndDestroy();
    };
    expect(await rawOf(runBody(fixture.server, bodyless, { url: fixture.url }))).toBe('RESET');
    expect(asked).toBe(1);
  });

  test('to a destination that breaks its answer off fails, and passes on no part as the whole', async () => {
    fixture.destination.script = async (wire, head) => {
      await wire.body(head);
      wire.send('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nthe first of it');
      wire.socket.end();
    };
    const code = `${ASK} return { raw: await ask(fetch(args.url).then(async (response) => ({ status: await response.text() }))) };`;
    expect(['RESET', 'PROTOCOL']).toContain(await rawOf(runBody(fixture.server, code, { url: fixture.url })));
  });

  test('goes over a connection of its tenant alone, which the proxy of that tenant uses too', async () => {
    const { server } = runner;
    const otherTenant = await server.newTenant();
    const usedBy = async ({ api_key }: TestTenant): Promise<Set<number>> => {
      const from = runner.upstream.received.length;
      const code = codeOf(`${ASK} return { raw: await ask(fetch(args.url)) };`);
      const reactor = await makeReactor(server, { code, key: api_key });
      const proxy = await makeProxy(server, { destination_url: runner.url }, api_key);
      for (let round = 0; round < 3; round += 1) {
        expect(await rawOf(react(server, reactor, { url: runner.url }, { key: api_key }))).toBe(200);
        expect((await askProxy(server, proxy, { method: 'GET', key: api_key })).status).toBe(200);
      }
      return new Set(runner.upstream.received.slice(from).map(({ connection }) => connection));
    };
    const [own, theirs] = [await usedBy(server.tenant), await usedBy(otherTenant)];
    expect(own.size).toBeGreaterThan(0);
    expect([...own].filter((connection) => theirs.has(connection))).toEqual([]);
    // Used again within the tenant: else this would prove nothing.
    expect(theirs.size).toBeLessThan(6);
  });
});
