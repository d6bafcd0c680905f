// Proxies in the console: looked at and tried, by a member with a browser that has no scripts, before a real TLS destination.
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { certificateFor } from './support/certificates.ts';
import { type Browser, fieldIn, type SharedConsole, textOf, withMembers } from './support/console.ts';
import { COOKIE, signIn } from './support/people.ts';
import { until } from './support/proxy.ts';
import { makeApplication, makeProxy, type StoredProxy } from './support/stored-proxies.ts';
import { type TestTenant, useEgressServer } from './support/server.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';
import { withoutDrawn } from './support/text.ts';

const CARD = '4242424242424242';
const MASKED_CARD = 'XXXXXXXXXXXX4242';
const SECRET = 'a-generic-value-without-a-mask';

let server: SharedConsole;
let upstream: Upstream;
let url: string;
let member: Browser;
let anonymous: { browser: Browser; tenant: TestTenant };
let card: string;
let generic: string;

type Serve = (request: IncomingMessage, response: ServerResponse, body: Buffer) => void | Promise<void>;
/** Repeats all that it got. */
const echo: Serve = (request, response, body) => {
  response.setHeader('content-type', 'application/json; charset=utf-8');
  response.end(JSON.stringify({ marker: 'echoed', url: request.url, headers: request.rawHeaders, body: String(body) }));
};
let serve: Serve = echo;

const tokenOf = async (json: object): Promise<string> => {
  const { status, body, text } = await server.request('POST', '/tokens', { json });
  expect(status, text).toBe(201);
  return body.id;
};

beforeAll(async () => {
  const { server: shared, port } = await useEgressServer();
  server = withMembers(shared);
  upstream = await startUpstream({ port, answer: (request, response, { body }) => serve(request, response, body) });
  url = `https://upstream.test:${upstream.port}`;
  member = await server.signIn();
  const tenant = await server.newTenant();
  anonymous = { tenant, browser: await server.signIn({ tenant }) };
  card = await tokenOf({ type: 'card', data: { number: CARD, expiration_month: 12, expiration_year: 2030 } });
  generic = await tokenOf({ type: 'token', data: SECRET });
});
afterAll(() => upstream.close());
beforeEach(() => {
  serve = echo;
  upstream.received.length = 0;
});

const pathOf = ({ id }: { id: string }) => `/console/proxies/${id}`;

const typedOf = (typed: Record<string, string>) => ({
  method: 'POST',
  path: '/charges',
  headers: 'Content-Type: application/json',
  body: '',
  destination: '',
  ...typed,
});

/** Opens the page of a proxy, types a request and presses a button. */
const press = async (proxy: { id: string }, button: string, typed: Record<string, string>) => {
  const page = await member.get(pathOf(proxy));
  expect(page.status, page.text).toBe(200);
  return member.post(pathOf(proxy), { ...typedOf(typed), do: button });
};

const sending = (proxy: { id: string }, typed: Record<string, string>) =>
  press(proxy, 'send', { sure: 'yes', ...typed });

/** What a person reads, with spaces between what stands apart. */
const wordsOf = (page: string): string => textOf(page.replaceAll('<', ' <')).replace(/\s+/g, ' ');

const expectNothingSent = () => expect(upstream.received).toEqual([]);

describe('The list of proxies', () => {
  test('shows where each goes, who may use it and what it runs, as text; never a key', async () => {
    const application = await makeApplication(server, {
      name: 'Check <b>out',
      type: 'private',
      permissions: ['token:use'],
    });
    const code = 'module.exports = async ({ args }) => args;';
    const made = await makeProxy(server, {
      name: '<i>Bank</i> & "sons"',
      destination_url: `${url}/v1`,
      require_auth: false,
      application: { id: application.id },
      response_transform: { code },
    });
    const plain = await makeProxy(server, { name: 'Plain', destination_url: url });
    const { status, text } = await member.get('/console/proxies');
    expect(status).toBe(200);
    const shown = textOf(text);
    for (const each of ['<i>Bank</i> & "sons"', `${url}/v1`, 'no API key needed', 'Check <b>out', 'response'])
      expect(shown).toContain(each);
    expect(text).not.toMatch(/<i>Bank|Check <b>/);
    for (const { key } of [made, plain]) expect(text).not.toContain(key);
    expect((await anonymous.browser.get('/console/proxies')).text).not.toContain(made.id);
    const found = textOf((await member.get('/console/proxies?name=Pl*n')).text);
    expect(found).toContain('Plain');
    expect(found).not.toContain('Bank');
    expect(textOf((await anonymous.browser.get('/console/proxies')).text)).toContain('No proxies yet');
  });
});

describe('The page of a proxy', () => {
  test('shows its route, its code as text, configuration names without values, and its key folded', async () => {
    const { cert, key: private_key } = certificateFor('client.test');
    const proxy = await makeProxy(server, {
      name: 'With everything',
      destination_url: `${url}/v1`,
      allowed_hosts: ['upstream.test'],
      configuration: { API_KEY: 'the-value-of-the-key' },
      request_transform: {
        code: '// </code></pre><script>alert(1)</script>\nmodule.exports = async ({ args }) => args;',
      },
      client_certificate: { certificate: String(cert), private_key: String(private_key) },
    });
    const { body } = await server.request('GET', `/proxies/${proxy.id}`);
    const { text } = await member.get(pathOf(proxy));
    const shown = textOf(text);
    for (const each of [`${url}/v1`, 'upstream.test', 'API_KEY', '</code></pre><script>alert(1)</script>'])
      expect(shown).toContain(each);
    expect(text).toContain(body.client_certificate.expires_at);
    expect(text).not.toMatch(/<script>alert|the-value-of-the-key|PRIVATE KEY/);
    const folded = /<details><summary>Show the key<\/summary>(.*?)<\/details>/s.exec(text)?.[1] ?? '';
    expect(folded).toContain(proxy.key);
    expect(text.split(proxy.key)).toHaveLength(2);
  });

  test('replaces its key, shows the new one once, and the old one ends when it is said', async () => {
    const proxy = await makeProxy(server, { destination_url: url, require_auth: false });
    const page = await member.get(pathOf(proxy));
    const form_id = fieldIn(page.text, 'form_id') ?? '';
    const replace = (grace_seconds: string) => member.post(`${pathOf(proxy)}/key`, { grace_seconds, form_id });
    const { text } = await replace('3600');
    const { body } = await server.request('GET', `/proxies/${proxy.id}`);
    expect(body.key).not.toBe(proxy.key);
    expect(textOf(text)).toContain(body.key);
    expect(text).toContain(body.previous_key_ends_at);
    expect(text).not.toContain(proxy.key);
    for (const key of [proxy.key, body.key])
      expect((await server.request('GET', '/proxy', { key: null, headers: { 'svc-proxy-key': key } })).status).toBe(
        200,
      );
    // The form that is sent again replaces nothing.
    expect((await replace('3600')).headers.get('location')).toBe(pathOf(proxy));
    expect((await server.request('GET', `/proxies/${proxy.id}`)).body.key).toBe(body.key);
    const wrongFields: Record<string, string>[] = [{ grace_seconds: '99999999' }, { grace_seconds: 'soon' }, {}];
    for (const wrong of wrongFields) {
      const refused = await member.post(`${pathOf(proxy)}/key`, wrong);
      expect([refused.status, textOf(refused.text).includes('The key was not replaced.')]).toEqual([400, true]);
    }
    expect((await server.request('GET', `/proxies/${proxy.id}`)).body.key).toBe(body.key);
  });

  test('warns where it has no application and something needs one', async () => {
    const warningOf = async (wanted: object): Promise<boolean> => {
      const made = await makeProxy(server, { destination_url: url, ...wanted });
      return textOf((await member.get(pathOf(made))).text).includes('the proxy has no application');
    };
    const code = 'module.exports = async ({ args }, svc) => args;';
    expect(await warningOf({ require_auth: false })).toBe(true);
    expect(await warningOf({ request_transform: { code } })).toBe(true);
    expect(await warningOf({ require_auth: false, expressions: 'off' })).toBe(false);
    expect(await warningOf({})).toBe(false);
    const { id } = await makeApplication(server, { permissions: ['token:use'] });
    expect(await warningOf({ require_auth: false, application: { id } })).toBe(false);
  });

  test('of another tenant is not there, and nothing is sent through it', async () => {
    const proxy = await makeProxy(server, { destination_url: url });
    const { browser } = anonymous;
    expect((await browser.get(pathOf(proxy))).status).toBe(404);
    for (const button of ['preview', 'send']) {
      await browser.get('/console/proxies/test');
      const answer = await browser.post(pathOf(proxy), { ...typedOf({}), do: button, sure: 'yes' });
      expect(answer.status).toBe(404);
      expect(textOf(answer.text)).toContain('The proxy was not found.');
      expect(answer.text).not.toContain(proxy.key);
    }
    expectNothingSent();
  });

  test('takes no form without its token', async () => {
    const proxy = await makeProxy(server, { destination_url: url });
    for (const path of [pathOf(proxy), '/console/proxies/test'])
      for (const button of ['preview', 'send']) {
        const typed = typedOf({ destination: url, sure: 'yes', do: button, csrf: 'x' });
        expect((await member.post(path, typed)).status).toBe(403);
      }
    expectNothingSent();
  });
});

describe('A preview', () => {
  let proxy: StoredProxy;
  beforeAll(async () => {
    proxy = await makeProxy(server, { destination_url: url });
  });

  test('lists each expression with type, container and mask; shows no value and sends nothing', async () => {
    const connections = upstream.connectionCount();
    const { status, text } = await press(proxy, 'preview', {
      path: `/x/{{ ${card} | json: '$.number' }}?q={{ ${generic} }}`,
      headers: `Content-Type: application/json\nX-Card: {{ ${card} | last4 }}`,
      body: `{ "a": "{{ ${card} }}", "b": ["text {{${generic}}} and {{ ${card} | json: '$.number' }}"], "\\u0063": "\\u007b{ ${generic} | upcase }}" }`,
    });
    expect(status).toBe(200);
    const rows = [...text.matchAll(/<tr>(<td.*?)<\/tr>/gs)].map(([, row = '']) =>
      [...row.matchAll(/<td[^>]*>(.*?)<\/td>/gs)].map(([, cell = '']) => textOf(cell).replace(/\s+/g, ' ').trim()),
    );
    const ofCard = [
      'card /pci/high/',
      `{ "number": "${MASKED_CARD}", "expiration_month": 12, "expiration_year": 2030 }`,
    ];
    const ofGeneric = ['token /general/high/', 'none'];
    expect(rows).toEqual([
      ['path', `{{ ${card} | json: '$.number' }}`, ...ofCard],
      ['query', `{{ ${generic} }}`, ...ofGeneric],
      ['headers.X-Card', `{{ ${card} | last4 }}`, ...ofCard],
      ['body', `{{ ${card} }}`, ...ofCard],
      ['body', `{{${generic}}}`, ...ofGeneric],
      ['body', `{{ ${card} | json: '$.number' }}`, ...ofCard],
      ['body', `{{ ${generic} | upcase }}`, ...ofGeneric],
    ]);
    expect(textOf(text)).toContain('Every expression matches a token.');
    expect(text).not.toContain(CARD);
    expect(text).not.toContain(SECRET);
    expectNothingSent();
    expect(upstream.connectionCount()).toBe(connections);
  });

  test('shows the request that is sent then, with masks in place of values; it uses nothing', async () => {
    const typed = {
      path: `/x/{{ ${card} | json: '$.number' }}?q={{ ${card} | json: '$.number' | slice: 4, 12 }}&r=%7Ba%7D`,
      headers: `Content-Type: application/json; charset=utf-8\nX-Card: no {{ ${card} | json: '$.number' }}`,
      body: `{ "a": "{{ ${card} }}", "b": ["é {{ ${card} | json: '$.number' }}", "{{ ${card} | json: '$.expiration_month' }}"] }`,
    };
    const through = await makeProxy(server, { destination_url: `${url}/v1?own=1`, require_auth: false });
    const uses = async () =>
      server.sql(
        "SELECT operation, disclosure FROM audit_log WHERE entity_ids && ARRAY[$1::text, $2::text] AND operation = 'use'",
        [card, through.id],
      );
    const before = await uses();
    const shown = textOf((await press(through, 'preview', typed)).text);
    expect(await uses()).toEqual(before);
    expectNothingSent();
    expect((await sending(through, typed)).status).toBe(200);
    const [got] = upstream.received;
    const masked = (text: string) => text.replaceAll(CARD, MASKED_CARD).replaceAll(CARD.slice(4), MASKED_CARD.slice(4));
    expect(shown).toContain(`${got?.method} ${masked(got?.url ?? '')} HTTP/1.1\nHost: ${new URL(url).host}\n`);
    expect(shown).toContain(`\n\n${masked(String(got?.body))}`);
    const ofConnection = /^(?:host|content-length|cdn-loop|connection|traceparent|tracestate)$/i;
    const sentHeaders = (got?.headers ?? []).filter(([name]) => !ofConnection.test(name));
    expect(sentHeaders.length).toBeGreaterThan(2);
    for (const [name, value] of sentHeaders)
      expect(shown.toLowerCase()).toContain(`\n${name}: ${masked(value)}\n`.toLowerCase());
  });

  test('hides a value that has no mask, whatever is done with it', async () => {
    const { text } = await press(proxy, 'preview', {
      path: `/{{ ${generic} | slice: 0, 3 }}`,
      body: `{ "a": "{{ ${generic} | json: '$.x' }}", "b": "{{ ${card} | card_exp: 'x' | slice: 0, 400 }}" }`,
    });
    expect(text).not.toContain(CARD);
    expect(text).not.toContain(SECRET);
    expect(textOf(text)).toContain('POST /XXXX HTTP/1.1');
    expect(textOf(text)).toContain('"a": "XXXX"');
  });

  test('shows what a mask of its own leaves, and hides what a default would stand for', async () => {
    const json = { type: 'token', data: 'ACCOUNT-7788', mask: '{{ data | reveal_last: 4 }}' };
    const { id } = (await server.request('POST', '/tokens', { json })).body;
    const body = `{ "own": "{{ ${id} }}", "none": "{{ ${generic} | default: 'another' }}" }`;
    const { text } = await press(proxy, 'preview', { body });
    expect(textOf(text)).toContain('"own": "XXXXXXX-7788"');
    expect(textOf(text)).toContain('"none": "XXXX"');
    expect(text).not.toContain('ACCOUNT');
    const nameless = await press(proxy, 'preview', { body: '{ "a": "{{token:}}" }' });
    expect([nameless.status, textOf(nameless.text).includes('No token has this id')]).toEqual([200, true]);
  });

  test('has a body of 64 KB at most', async () => {
    const bodyOf = (length: number) => `"${'x'.repeat(length - 2)}"`;
    const of = async (length: number) => textOf((await press(proxy, 'preview', { body: bodyOf(length) })).text);
    expect(await of(64 * 1024)).toContain('What the destination would get');
    expect(await of(64 * 1024 + 1)).toContain('A body of more than 64 KB has no preview. Nothing was sent.');
    expectNothingSent();
  });

  test('says what the destination, the proxy and its code would do', async () => {
    const literal = await makeProxy(server, {
      destination_url: url,
      expressions: 'off',
      request_transform: { code: 'module.exports = async ({ args }) => args;' },
    });
    const off = wordsOf((await press(literal, 'preview', { body: '{ "a": "{{ no-token }}" }' })).text);
    for (const each of ['Expressions are off', '{ "a": "{{ no-token }}" }', 'A preview runs no code', 'sent as it is'])
      expect(off).toContain(each);
    const own = wordsOf((await press(proxy, 'preview', { headers: `X-Key: ${proxy.key}` })).text);
    expect(own).toContain('The proxy would refuse this request. headers.X-Key: must not hold an API key of a vault');
    const digest = { headers: 'Content-Type: application/json\nContent-MD5: x', body: `"{{ ${card} }}"` };
    expect(wordsOf((await press(proxy, 'preview', digest)).text)).toContain('The proxy would refuse this request.');
    expect(wordsOf((await sending(proxy, digest)).text)).toContain('400 Bad Request');
    expectNothingSent();
    const support = await server.signIn();
    await server.request('PUT', `/tenants/self/members/${support.member_id}`, { json: { role: 'DEVELOPER' } });
    await support.get(pathOf(proxy));
    const { text } = await support.post(pathOf(proxy), { ...typedOf({ body: `"{{ ${card} }}"` }), do: 'preview' });
    expect(textOf(text)).toContain('Your role may not use tokens');
    expect(textOf(text)).toContain('"XXXX"');
    expect(withoutDrawn(text)).not.toContain('4242');
  });

  test('says of each that does not match why', async () => {
    const theirs = await server.request('POST', '/tokens', {
      json: { type: 'token', data: 'theirs' },
      key: anonymous.tenant.api_key,
    });
    const { text } = await press(proxy, 'preview', {
      path: `/{{ ${theirs.body.id} }}`,
      headers: 'Content-Type: application/json\nX-A: {{ <b>no</b>\nX-B: {{ .. }}\nX-C: {{ x | nope }}',
      body: '{ "list": [{ "name": "{{ }}" }] }',
    });
    const shown = wordsOf(text);
    expect(shown).toContain('The proxy would refuse this request: 5 places do not match.');
    expect(shown).toContain('path {{');
    expect(shown.match(/No token has this id, or it has expired\./g)).toHaveLength(2);
    expect(shown).toContain('must close every {{ with }}');
    expect(shown).toContain('body.list[0].name');
    expect(text).not.toContain('<b>no</b>');
    expectNothingSent();
  });

  test('says where nothing is looked for, and where nothing was found', async () => {
    const unread = await press(proxy, 'preview', { headers: 'Content-Type: image/png', body: `{{ ${card} }}` });
    expect(textOf(unread.text)).toContain('A body of this type is not searched');
    const none = await press(proxy, 'preview', { body: '{"a":"{b}"}' });
    expect(textOf(none.text)).toContain('No expression was found');
  });

  test('keeps what was typed, as text', async () => {
    const body = '\n</textarea><script>alert(1)</script>';
    const typed = { method: 'PATCH', path: '/a"><b>b', headers: 'Content-Type: text/plain\nX-A: </textarea>', body };
    const { text } = await press(proxy, 'preview', typed);
    for (const name of ['path', 'headers', 'body'] as const) expect(fieldIn(text, name)).toBe(typed[name]);
    expect(text).toContain('<option selected>PATCH</option>');
    expect(text).not.toMatch(/<script>alert|<b>b/);
  });
});

describe('Sending', () => {
  let proxy: StoredProxy;
  beforeAll(async () => {
    proxy = await makeProxy(server, { destination_url: `${url}/v1` });
  });

  test("puts the values in and shows the destination's answer with card digits masked", async () => {
    const { status, text } = await sending(proxy, {
      method: 'PUT',
      path: `/cards/{{ ${generic} }}?n={{ ${card} | json: '$.number' }}`,
      headers: `Content-Type: application/json\nX-Card: {{ ${card} | json: '$.number' }}\nCookie: theirs=1`,
      body: `{ "number": "{{ ${card} | json: '$.number' }}" }`,
    });
    expect(status).toBe(200);
    expect(upstream.received).toHaveLength(1);
    const [got] = upstream.received;
    expect([got?.method, got?.url, String(got?.body)]).toEqual([
      'PUT',
      `/v1/cards/${SECRET}?n=${CARD}`,
      `{ "number": "${CARD}" }`,
    ]);
    expect(new Map(got?.headers).get('x-card')).toBe(CARD);
    const shown = wordsOf(text);
    expect(shown).toMatch(/Destination 200 OK Took \d+ ms Content type application\/json/);
    expect(text).not.toContain(CARD);
    expect(shown).toContain('"marker": "echoed"');
    expect(shown).toContain(`/v1/cards/${SECRET}?n=${MASKED_CARD}`);
    expect(shown).toContain('may repeat the values that were sent');
  });

  const answering = async (type: string | undefined, body: string | Buffer): Promise<string> => {
    serve = (_request, response) => {
      if (type !== undefined) response.setHeader('content-type', type);
      response.end(body);
    };
    return (await sending(proxy, {})).text;
  };

  test('shows the body of an answer as text, bounded, and security codes in JSON masked', async () => {
    const json = await answering('application/json', '{"a":"</code><b>no</b>","card":{"cvc":"7373"},"n":1}');
    expect(textOf(json)).toContain('"a": "</code><b>no</b>"');
    expect(withoutDrawn(json)).not.toMatch(/<b>no|7373/);
    const code = '{"card":{"cvc":"7373","security_code" : 7373}}';
    for (const [type, body] of [
      ['application/json', `{"first":${code},"rest":"${'z'.repeat(70_000)}"}`],
      ['application/x-ndjson', `${code}\n${code}`],
      ['text/plain', code],
    ] as const)
      expect(withoutDrawn(await answering(type, body))).not.toContain('7373');
    expect(textOf(await answering('text/plain; charset=windows-1251', Buffer.from('\xc4\xe0', 'latin1')))).toContain(
      'Да',
    );
    expect(textOf(await answering('application/json', `${'['.repeat(20_000)}${']'.repeat(20_000)}`))).toContain('[[[[');
    const page = textOf(await answering(undefined, `begin ${'z'.repeat(200_000)}end`));
    expect(page).toContain('begin zzz');
    expect(page).toContain('Cut off');
    expect(page).not.toContain('zend');
    expect(page.length).toBeLessThan(60_000);
    // A character of three bytes: the text ends within a number before it is cut for its length.
    const split = await answering('text/plain', `${'\u20ac'.repeat(21_842)}xx${CARD}`);
    expect(split).toContain('\u20acxx');
    expect(split).not.toContain('xx4242');
  });

  test.each([
    ['an image', 'image/png', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 1])],
    ['bytes without a type', undefined, Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 1])],
    ['text in no known charset', 'text/plain; charset=x-own', Buffer.from('marker')],
  ])('says of %s that it is not shown', async (_what, type, body) => {
    const text = await answering(type, body);
    expect(textOf(text)).toContain('The body of the response is not text.');
    expect(text).not.toContain('marker');
  });

  test('shows what came of an answer that does not end', async () => {
    serve = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: first\n\n');
    };
    const page = textOf((await sending(proxy, {})).text);
    expect(page).toContain('data: first');
    expect(page).toContain('Cut off');
  });

  test('takes a word: without it nothing is sent, and what was typed stays', async () => {
    const { status, text } = await press(proxy, 'send', { body: '{"a":1}' });
    expect(status).toBe(422);
    expect(textOf(text)).toContain('Nothing was sent.');
    expect(fieldIn(text, 'body')).toBe('{"a":1}');
    expectNothingSent();
  });

  test('never lets the session of the member reach the destination', async () => {
    const browser = await signIn(server, member.email);
    const csrf = await browser.csrf();
    const secret = browser.cookies.get(COOKIE) ?? '';
    expect([csrf, secret]).not.toContain('');
    const sent = { ...typedOf({ sure: 'yes', body: '{}' }), csrf, do: 'send' };
    await browser.post(pathOf(proxy), sent);
    // Typed by hand, too: it is taken out of what is the destination's.
    await browser.post(pathOf(proxy), { ...sent, headers: `Cookie: theirs=1; ${COOKIE}=${secret}; more=2` });
    expect(upstream.received).toHaveLength(2);
    const cookies = upstream.received.map(({ headers }) => headers.filter(([name]) => /^cookie$/i.test(name)));
    expect(cookies).toEqual([[], [['cookie', 'theirs=1; more=2']]]);
    for (const { url: asked, headers, body } of upstream.received) {
      expect(headers.filter(([name]) => /^(?:svc|sec)-/i.test(name))).toEqual([]);
      const all = JSON.stringify([asked, headers, String(body)]);
      for (const each of [csrf, secret, proxy.key]) expect(all).not.toContain(each);
    }
  });

  test.each([404, 503, 302])('shows a %i of the destination as its own', async (code) => {
    serve = (_request, response) => {
      response.writeHead(code, { 'content-type': `text/${CARD}; boundary=${CARD}`, location: `/${CARD}` });
      response.end(CARD);
    };
    const { status, text } = await sending(proxy, {});
    expect(status).toBe(200);
    expect(textOf(text)).toContain(`${code} `);
    expect(textOf(text)).not.toContain('Response of the proxy');
    expect(text).not.toContain(CARD);
  });

  test('reads no more of an answer of 100 MB than it shows: its connection is closed', async () => {
    const piece = Buffer.alloc(64 * 1024, 'x');
    let sentBytes = 0;
    let isClosed = false;
    serve = async (_request, response) => {
      const closed = once(response, 'close').then(() => (isClosed = true));
      response.writeHead(200, {
        'content-type': 'application/octet-stream',
        'content-length': String(1600 * piece.length),
      });
      for (let count = 0; count < 1600 && !response.destroyed; count += 1) {
        const isTaken = response.write(piece);
        sentBytes += piece.length;
        if (!isTaken) await Promise.race([once(response, 'drain'), closed]);
      }
      response.end();
    };
    const { text } = await sending(proxy, {});
    expect(textOf(text)).toContain('104,857,600 bytes');
    await until(() => isClosed, 'the end of the connection');
    expect(sentBytes).toBeLessThan(32 * 1024 * 1024);
  });

  test('tells what the proxy itself refuses, in its words', async () => {
    const unknown = await sending(proxy, { body: '{ "a": "{{ not-there }}" }' });
    expect(textOf(unknown.text)).toContain('400 Bad Request');
    expect(textOf(unknown.text)).toContain('Failed to detokenize some tokens: not-there');
    expectNothingSent();
    serve = (_request, response) => void response.destroy();
    const broken = await sending(proxy, {});
    expect(textOf(broken.text)).toContain('did not respond');
    expect(textOf(broken.text)).toContain('502 Bad Gateway');
    expect(textOf(broken.text)).toContain('may have processed the request');
  });

  test('shows words of transforms and what they answer with the digits of cards masked', async () => {
    const { id: throwing } = await makeProxy(server, {
      destination_url: url,
      request_transform: {
        code: `module.exports = async ({ args }) => { throw new Error('<b>no</b> ' + args.body.n); };`,
      },
    });
    const body = `{ "n": "{{ ${card} | json: '$.number' }}" }`;
    const thrown = await sending({ id: throwing }, { body });
    expect(textOf(thrown.text)).toContain(`<b>no</b> ${MASKED_CARD}`);
    expect(textOf(thrown.text)).toContain('in line 1 of the transform');
    expect(thrown.text).not.toMatch(new RegExp(`<b>no|${CARD}`));
    const { id: answering } = await makeProxy(server, {
      destination_url: url,
      request_transform: {
        code: `const { CustomHttpResponseError } = require('@svc/reactor-formulas-sdk');
          module.exports = async ({ args }) => { throw new CustomHttpResponseError({ status: 402, body: ['of', 'code', args.body.n].join(' ') }); };`,
      },
    });
    const answered = await sending({ id: answering }, { body });
    expect(textOf(answered.text)).toContain('Code of the proxy responded in place of the destination.');
    expect(textOf(answered.text)).toContain('402 Payment Required');
    expect(textOf(answered.text)).toContain(`of code ${MASKED_CARD}`);
    expect(answered.text).not.toContain(CARD);
    expectNothingSent();
  });

  test.each([
    ['/../tokens/ID'],
    ['/%2e%2e/tokens/ID'],
    ['/..\\tokens/ID'],
    ['/.\t./tokens/ID'],
    ['tokens/ID'],
    ['//../../tokens/ID'],
  ])('asks nothing of the vault but its proxy: DELETE %j', async (path) => {
    const id = await tokenOf({ type: 'token', data: 'stays' });
    const { status } = await sending(proxy, { method: 'DELETE', path: path.replace('ID', id), headers: '' });
    expect(status).toBe(422);
    expect((await server.request('GET', `/tokens/${id}`)).status).toBe(200);
    expectNothingSent();
  });

  test.each([
    'SVC-PROXY-URL: https://elsewhere.test',
    'svc-api-key: x',
    'Host: x',
    'Transfer-Encoding: chunked',
    'a: 1\nA: 2',
    'x',
  ])('refuses a header beside its field, and sends nothing: %j', async (headers) => {
    const { status, text } = await sending(proxy, { headers });
    expect(status).toBe(422);
    expect(text).toContain('id="headers-problem"');
    expect(fieldIn(text, 'headers')).toBe(headers);
    expectNothingSent();
  });
});

describe('A destination that no proxy names', () => {
  test.each([
    ['http://upstream.test/', 'SVC-PROXY-URL: '],
    ['https://127.0.0.1/', 'SVC-PROXY-URL: '],
    ['https://upstream.test/', 'POST /charges HTTP/1.1'],
  ])('is previewed: %s', async (destination, said) => {
    await member.get('/console/proxies/test');
    const { text } = await member.post('/console/proxies/test', { ...typedOf({ destination }), do: 'preview' });
    expect(textOf(text)).toContain(said);
    expectNothingSent();
  });

  const send = async (typed: Record<string, string>) => {
    await member.get('/console/proxies/test');
    return member.post('/console/proxies/test', { ...typedOf(typed), sure: 'yes', do: 'send' });
  };

  test('is tried in the same way', async () => {
    const { text } = await send({ destination: `${url}/there`, path: `/{{ ${generic} }}`, method: 'GET', headers: '' });
    expect(upstream.received.map(({ method, url: asked }) => [method, asked])).toEqual([['GET', `/there/${SECRET}`]]);
    expect(textOf(text)).toContain('200 OK');
    expect(fieldIn(text, 'destination')).toBe(`${url}/there`);
    expect(textOf(text)).toContain('"marker": "echoed"');
  });

  test.each(['', 'upstream', 'not a url'])('that is none is told beside its field: %j', async (destination) => {
    const { status, text } = await send({ destination });
    expect(status).toBe(422);
    expect(text).toContain('id="destination-problem"');
    expect(fieldIn(text, 'destination')).toBe(destination);
    expectNothingSent();
  });

  test.each(['http://upstream.test/', 'https://127.0.0.1/', 'https://[::1]/'])(
    'is where values may go: not %s',
    async (destination) => {
      const { text } = await send({ destination });
      expect(textOf(text)).toContain('SVC-PROXY-URL: ');
      expectNothingSent();
    },
  );
});

test('whoever is nobody is sent to sign in', async () => {
  const proxy = await makeProxy(server, { destination_url: url });
  for (const path of ['/console/proxies', '/console/proxies/test', pathOf(proxy)])
    expect((await server.anonymous().get(path)).status).toBe(303);
  const answer = await server.anonymous().post(pathOf(proxy), { ...typedOf({}), do: 'send', sure: 'yes' });
  // With what was typed, to be copied.
  expect([answer.status, answer.text]).toEqual([401, expect.stringContaining('href="/console/sign-in"')]);
  expectNothingSent();
});
