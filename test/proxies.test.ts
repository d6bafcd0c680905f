// Stored proxies over HTTP: destination, transforms, and the key, which is looked up before a caller is known.
// Requests through a proxy are in proxy.test.ts.
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LOCAL_HINT } from '../src/platform/config/dev-destination.ts';
import { sweepOnce } from '../src/platform/maintenance/sweep.ts';
import type { Permission } from '../src/modules/access/permissions.ts';
import { createProxyFinder, type ProxyForUse } from '../src/modules/proxy/proxy-finder.ts';
import { operatorTransaction } from '../src/modules/access/work.ts';
import { certificateFor, testCa } from './support/certificates.ts';
import { deafen, hearChanges } from './support/notices.ts';
import { type BadBody, describeBadBodies, UNKNOWN_ID } from './support/resource.ts';
import { type Answer, startServer, type TestServer, type TestTenant } from './support/server.ts';

let server: TestServer;
let tenant: TestTenant;

const code = 'module.exports = async ({ args }) => ({ body: args.body, headers: args.headers });\n';
const base = { name: 'Proxy', destination_url: 'https://api.example.com/v1' };
const full = {
  name: 'Payments',
  destination_url: 'https://api.example.com/v1?live=1',
  request_transform: { code },
  response_transform: { code: `// behind\n${code}` },
  configuration: { API_KEY: 'sk_live_secret', LIMIT: 12.5, LIVE: false },
  require_auth: false,
  timeout_seconds: 90,
  allowed_hosts: ['API.example.com', '*.Example.org', 'api.example.com'],
};

const send = (method: string, path: string, json?: unknown, key = tenant.api_key, headers = {}): Promise<Answer> =>
  server.request(method, path, { key, headers, ...(json === undefined ? {} : { json }) });

const create = async (json: object = {}, key?: string) => {
  const answer = await send('POST', '/proxies', { ...base, ...json }, key);
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const change = async (id: string, json: object = {}, key?: string) => {
  const answer = await send('PUT', `/proxies/${id}`, { ...base, ...json }, key);
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
};

/** A key of the tenant with these permissions and no others, made by the operator. */
const keyWith = async (...held: Permission[]): Promise<string> =>
  (await server.newKey(tenant, { permissions: held })).api_key;

const find = (key: string, at = server) => at.ctx.proxies.findProxyBeforeCaller(key);

beforeAll(async () => {
  server = await startServer();
  tenant = await server.newTenant();
});
afterAll(() => server.close());

describe('a proxy', () => {
  test('has the configuration that it was given, an empty one too, and null for none', async () => {
    const given = async (fields: object) => {
      const { id, configuration } = await create(fields);
      expect((await send('GET', `/proxies/${id}`)).body.configuration).toEqual(configuration);
      return configuration;
    };
    expect(await given({})).toBeNull();
    expect(await given({ configuration: null })).toBeNull();
    expect(await given({ configuration: {} })).toEqual({});
    expect(await given({ configuration: { LIMIT: 1 } })).toEqual({ LIMIT: 1 });
    const { id } = await create({ configuration: { LIMIT: 1 } });
    expect((await change(id)).configuration).toBeNull();
    expect((await change(id, { configuration: {} })).configuration).toEqual({});
  });

  test('that is changed is found as changed, under the same key, at once', async () => {
    const { application_id } = await server.newKey(tenant, { permissions: ['token:read'] });
    const { id, key } = await create({ ...full, application: { id: application_id } });
    const before = await find(key);
    expect((await change(id)).key).toBe(key);
    const after = await find(key);
    expect(after?.version).not.toBe(before?.version);
    expect(after?.require_auth).toBe(true);
  });

  test('is deleted, at once, with its key, and its application stays', async () => {
    const { application_id } = await server.newKey(tenant, { permissions: ['token:read'] });
    const { id, key } = await create({ application: { id: application_id } });
    expect(await find(key)).toBeDefined();
    expect((await send('DELETE', `/proxies/${id}`)).status).toBe(204);
    expect(await find(key)).toBeUndefined();
    expect(await server.sql('SELECT * FROM proxy_keys WHERE proxy_id = $1', [id])).toEqual([]);
    expect((await send('GET', `/applications/${application_id}`)).status).toBe(200);
  });
});

describe('the key of a proxy', () => {
  test('is shown only to callers with proxy:read', async () => {
    const application = await server.newKey(tenant, { permissions: ['proxy:create', 'proxy:update'] });
    const writer = application.api_key;
    const made = await create({}, writer);
    expect(made).not.toHaveProperty('key');
    const changed = await change(made.id, {}, writer);
    expect(changed).not.toHaveProperty('key');
    const { key } = (await send('GET', `/proxies/${made.id}`)).body;
    expect(key).toMatch(/^[0-9A-Za-z]{32}$/);
    expect(await change(made.id, {}, await keyWith('proxy:update', 'proxy:read'))).toHaveProperty('key', key);
    // What is kept for a repeated request is what was sent.
    const headers = { 'svc-idempotency-key': 'no-key' };
    for (const _ of [1, 2])
      expect((await send('POST', '/proxies', base, writer, headers)).body).not.toHaveProperty('key');
  });

  test('is no other’s, and has nothing of an id in it', async () => {
    const made = await Promise.all(Array.from({ length: 20 }, () => create()));
    expect(new Set(made.map(({ key }) => key)).size).toBe(20);
    for (const field of ['id', 'tenant_id']) {
      const sharing = (length: number) => made.filter((each) => each.key.includes(each[field].slice(-length)));
      expect(sharing(12)).toEqual([]);
      // Four signs may meet by chance in one key; what is put into keys is in all of them.
      expect(sharing(4).length).toBeLessThan(2);
    }
  });

  test('and the destination are sealed at rest, under the tenant, the proxy and the field', async () => {
    const secret = crypto.randomUUID();
    const { cert: certificate, key: private_key } = certificateFor('client.example.com');
    const json = {
      ...full,
      destination_url: `https://api.example.com/${secret}`,
      request_transform: { code: `// ${secret}\n${code}` },
      configuration: { API_KEY: secret },
      client_certificate: { certificate, private_key },
    };
    const [one, two] = [await create(json), await create(json)];
    const rows = [
      ...(await server.sql('SELECT * FROM proxies')),
      ...(await server.sql('SELECT * FROM proxy_keys')),
      ...(await server.sql('SELECT * FROM audit_log')),
    ];
    expect(rows.some(({ proxy_id }) => proxy_id === one.id)).toBe(true);
    const hidden = [secret, one.key, 'API_KEY', 'module.exports', 'PRIVATE KEY', 'BEGIN CERTIFICATE'];
    for (const row of rows)
      for (const column of Object.values(row)) {
        const bytes = Buffer.isBuffer(column) ? column : Buffer.from(JSON.stringify(column) ?? '');
        for (const text of hidden) expect(bytes.includes(text), text).toBe(false);
      }
    const logged = server.logLines.join('');
    for (const text of hidden) expect(logged).not.toContain(text);

    await server.sql('UPDATE proxies SET sealed = (SELECT sealed FROM proxies WHERE id = $2) WHERE id = $1', [
      one.id,
      two.id,
    ]);
    // As if its row were signed: the seal alone refuses it.
    await server.sign(tenant.tenant_id);
    server.ctx.changes.announce('anything');
    const before = server.logLines.length;
    const moved = await send('GET', `/proxies/${one.id}`);
    expect(moved.status).toBe(500);
    expect(moved.text).not.toContain(secret);
    await expect(find(one.key)).rejects.toMatchObject({ code: 'internal' });
    const alarms = server.logLines.slice(before).filter((line) => line.includes('"seal_broken"'));
    expect(alarms.filter((line) => line.includes(one.id)).length).toBeGreaterThanOrEqual(2);
    await server.sql('DELETE FROM proxies WHERE id = $1', [one.id]);
  });

  test('that is made to lead to another proxy leads to none, and raises the alarm', async () => {
    const [one, two] = [await create(), await create()];
    await server.sql('UPDATE proxy_keys SET proxy_id = $2 WHERE proxy_id = $1', [one.id, two.id]);
    const before = server.logLines.length;
    expect(await find(one.key)).toBeUndefined();
    expect(server.logLines.slice(before).join('')).toContain('"seal_broken"');
    expect(await find(two.key)).toMatchObject({ id: two.id });
  });
});

const certificate = certificateFor('client.example.com');
const otherCertificate = certificateFor('other.example.com');
const encryptedKey = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  .privateKey.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' })
  .toString();

/** The same certificate, until a time that is none. */
const undated = (pem: string): string => {
  const der = Buffer.from(pem.replaceAll(/-----.*-----/g, ''), 'base64');
  // The last UTCTime of thirteen characters.
  der.write('no time at al', der.lastIndexOf(Buffer.of(0x17, 0x0d)) + 2, 'ascii');
  return `-----BEGIN CERTIFICATE-----\n${der.toString('base64')}\n-----END CERTIFICATE-----\n`;
};

describe('a bad body', () => {
  const certified = (given: object) => ({
    client_certificate: { certificate: certificate.cert, private_key: certificate.key, ...given },
  });
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`A${index}`, 1]));
  const cases: BadBody[] = [
    ['no destination', { destination_url: undefined }, 'destination_url'],
    ['a destination that is no text', { destination_url: 1 }, 'destination_url'],
    ['an empty destination', { destination_url: '' }, 'destination_url'],
    ['a destination too long', { destination_url: `https://api.example.com/${'x'.repeat(377)}` }, 'destination_url'],
    ['a destination of http', { destination_url: 'http://api.example.com' }, 'destination_url'],
    ['a destination of ftp', { destination_url: 'ftp://api.example.com' }, 'destination_url'],
    ['a destination without slashes', { destination_url: 'https:api.example.com' }, 'destination_url'],
    ['a destination with backslashes', { destination_url: 'https:\\\\api.example.com' }, 'destination_url'],
    ['a destination without a scheme', { destination_url: 'api.example.com' }, 'destination_url'],
    ['an address', { destination_url: 'https://127.0.0.1/' }, 'destination_url'],
    ['an address in hexadecimals', { destination_url: 'https://0x7f000001/' }, 'destination_url'],
    ['an address of version 6', { destination_url: 'https://[::1]/' }, 'destination_url'],
    ['a host without a dot', { destination_url: 'https://localhost/' }, 'destination_url'],
    ['a port that is blocked', { destination_url: 'https://api.example.com:25/' }, 'destination_url'],
    ['credentials', { destination_url: 'https://a:b@api.example.com/' }, 'destination_url'],
    ['a fragment', { destination_url: 'https://api.example.com/#a' }, 'destination_url'],
    ['an empty fragment', { destination_url: 'https://api.example.com/#' }, 'destination_url'],
    ['a blank in it', { destination_url: 'https://api.example.com/a b' }, 'destination_url'],
    ['a line break in it', { destination_url: 'https://api.exa\nmple.com/' }, 'destination_url'],
    ['half a character in its path', { destination_url: 'https://api.example.com/\ud800' }, 'destination_url'],
    ['the key of a proxy in it', { destination_url: 'https://a.example.com/?SVC-Proxy-Key=x' }, 'destination_url'],
    ['the same, encoded', { destination_url: 'https://a.example.com/?a=1&svc%2dproxy-key=x' }, 'destination_url'],
    ['a transform that is text', { request_transform: code }, 'request_transform'],
    ['a transform without code', { response_transform: {} }, 'response_transform.code'],
    ['empty code', { request_transform: { code: '' } }, 'request_transform.code'],
    ['code too long', { request_transform: { code: `//${'x'.repeat(49_999)}` } }, 'request_transform.code'],
    ['code with NUL', { response_transform: { code: '\0' } }, 'response_transform.code'],
    ['an application that is no object', { application: UNKNOWN_ID }, 'application'],
    ['an application with a bad id', { application: { id: 'x' } }, 'application.id'],
    ['a configuration that is no object', { configuration: 'x' }, 'configuration'],
    ['a configuration that is a list', { configuration: [] }, 'configuration'],
    ['too many entries', { configuration: many(26) }, 'configuration'],
    ['a name of configuration with a dot', { configuration: { 'a.b': 1 } }, 'configuration.a.b'],
    ['a name of configuration with a slash', { configuration: { 'a/b': 1 } }, 'configuration.a/b'],
    ['an empty name of configuration', { configuration: { '': 1 } }, 'configuration.'],
    ['a name that reaches for a prototype', { configuration: { constructor: 1 } }, 'configuration.constructor'],
    [
      'a name of configuration too long',
      { configuration: { ['x'.repeat(201)]: 1 } },
      `configuration.${'x'.repeat(100)}…`,
    ],
    ['a null in it', { configuration: { A: null } }, 'configuration.A'],
    ['an object in it', { configuration: { A: {}, 2: [] } }, 'configuration.2', 'configuration.A'],
    ['a text too long in it', { configuration: { A: 'x'.repeat(4_001) } }, 'configuration.A'],
    ['half a character in it', { configuration: { A: '\ud800' } }, 'configuration.A'],
    ['a require_auth that is text', { require_auth: 'true' }, 'require_auth'],
    ['hosts that are text', { allowed_hosts: 'api.example.com' }, 'allowed_hosts'],
    ['no host among the hosts', { allowed_hosts: [] }, 'allowed_hosts'],
    ['too many hosts', { allowed_hosts: Array(51).fill('api.example.com') }, 'allowed_hosts'],
    ['a host that is a URL', { allowed_hosts: ['https://api.example.com'] }, 'allowed_hosts[0]'],
    ['a host with a port', { allowed_hosts: ['api.example.com', 'api.example.com:443'] }, 'allowed_hosts[1]'],
    ['a host that is an address', { allowed_hosts: ['10.0.0.1'] }, 'allowed_hosts[0]'],
    ['a host that is everything', { allowed_hosts: ['*'] }, 'allowed_hosts[0]'],
    ['a star elsewhere', { allowed_hosts: ['api.*.com'] }, 'allowed_hosts[0]'],
    ['an empty label', { allowed_hosts: ['api..com'] }, 'allowed_hosts[0]'],
    ['hosts without that of the destination', { allowed_hosts: ['example.com', '*.api.example.com'] }, 'allowed_hosts'],
    ['a client certificate that is text', { client_certificate: certificate.cert }, 'client_certificate'],
    ['a certificate without its key', certified({ private_key: undefined }), 'client_certificate.private_key'],
    ['a certificate that is none', certified({ certificate: 'x' }), 'client_certificate.certificate'],
    [
      'a chain with something else in it',
      certified({ certificate: `${certificate.cert}${certificate.cert.replace('MII', 'AAA')}` }),
      'client_certificate.certificate',
    ],
    [
      'a certificate without a date',
      certified({ certificate: undated(certificate.cert) }),
      'client_certificate.certificate',
    ],
    ['a key for a certificate', certified({ certificate: certificate.key }), 'client_certificate.certificate'],
    ['a certificate too long', certified({ certificate: 'x'.repeat(20_001) }), 'client_certificate.certificate'],
    ['a key that is none', certified({ private_key: certificate.cert }), 'client_certificate.private_key'],
    ['a key that is another’s', certified({ private_key: otherCertificate.key }), 'client_certificate.private_key'],
    ['a key that is encrypted', certified({ private_key: encryptedKey }), 'client_certificate.private_key'],
    [
      'all of it wrong',
      {
        ...certified({ certificate: 'x', private_key: 'x' }),
        destination_url: 'https://x/',
        configuration: { A: null },
      },
      'destination_url',
      'configuration.A',
      'client_certificate.certificate',
      'client_certificate.private_key',
    ],
  ];
  describeBadBodies(
    () => server,
    '/proxies',
    async () => ({ post: base, put: base }),
    cases,
  );

  test('is refused without a word of what was sent', async () => {
    const answer = await send('POST', '/proxies', {
      name: 'x',
      destination_url: 'https://secret/',
      configuration: { A: { secret: 1 } },
      client_certificate: { certificate: 'secret', private_key: 'secret' },
    });
    expect(answer.status).toBe(400);
    expect(answer.text).not.toContain('secret');
  });

  test('says of a destination what egress says of it', async () => {
    for (const [destination_url, sentence] of [
      ['http://api.example.com', 'The destination must be an https URL.'],
      ['https://10.0.0.1', `The destination must be named by a host name, not by an address. ${LOCAL_HINT}`],
    ] as const) {
      const answer = await send('POST', '/proxies', { ...base, destination_url });
      expect(answer.body.errors).toEqual({ destination_url: [sentence] });
    }
  });
});

describe('a body at its limits', () => {
  test('is taken', async () => {
    const configuration = Object.fromEntries(
      Array.from({ length: 25 }, (_, index) => [
        `${'n'.repeat(198)}${String(index).padStart(2, '0')}`,
        'é'.repeat(4_000),
      ]),
    );
    const json = {
      name: 'n'.repeat(200),
      destination_url: `https://api.example.com/${'x'.repeat(376)}`,
      request_transform: { code: code.padEnd(50_000, '/') },
      response_transform: { code: code.padEnd(50_000, '/') },
      configuration,
      allowed_hosts: ['*.example.com', ...Array.from({ length: 49 }, (_, index) => `h${index}.example.com`)],
      client_certificate: { certificate: `${certificate.cert}${testCa}`, private_key: certificate.key },
    };
    const proxy = await create(json);
    expect(proxy).toMatchObject({ ...json, client_certificate: { certificate: json.client_certificate.certificate } });
    expect(await find(proxy.key)).toMatchObject({
      configuration,
      request_transform: json.request_transform.code,
      client_certificate: json.client_certificate,
    });
  });
});

describe('a transform', () => {
  test('that does not compile is refused with line and column, and each by its name', async () => {
    const { id } = await create();
    const json = {
      ...base,
      request_transform: { code: 'module.exports = async (req) => {\n  return { body: };\n};\n' },
      response_transform: { code: 'module.exports = 1;' },
    };
    for (const [method, path] of [
      ['POST', '/proxies'],
      ['PUT', `/proxies/${id}`],
    ] as const) {
      const answer = await send(method, path, json);
      expect(answer.status, answer.text).toBe(422);
      expect(answer.body.detail).toBe('The code of the transform cannot be run.');
      expect(answer.body.errors).toEqual({
        'request_transform.code': ['does not compile: line 2, column 18 (Unexpected token)'],
        'response_transform.code': [
          'must export a function: module.exports = async (req) => ({ body: req.args.body, headers: req.args.headers })',
        ],
      });
    }
    expect((await send('GET', `/proxies/${id}`)).body).not.toHaveProperty('request_transform');
  });

  test('that throws as it loads is kept: that is the affair of those who use it', async () => {
    const proxy = await create({ request_transform: { code: 'throw new Error("not now")' } });
    expect(proxy.request_transform.code).toContain('not now');
  });
});

describe('the application of a proxy', () => {
  const strongest: Permission[] = ['token:read', 'log:read'];
  const writes: Permission[] = ['proxy:create', 'proxy:update', 'proxy:delete'];
  let strong: TestTenant;
  let weak: string;
  let equal: string;
  const having = (application_id: string) => ({ application: { id: application_id } });
  beforeAll(async () => {
    strong = await server.newKey(tenant, { permissions: strongest });
    weak = await keyWith(...writes, 'token:read');
    equal = await keyWith(...writes, ...strongest);
  });

  test('is given only by a caller that holds all its permissions', async () => {
    const json = { ...base, ...having(strong.application_id) };
    const refused = await send('POST', '/proxies', json, weak);
    expect(refused.status, refused.text).toBe(403);
    expect(refused.body.detail).toContain('log:read');
    expect((await send('POST', '/proxies', json, equal)).status).toBe(201);
    const { id } = await create();
    const changed = await send('PUT', `/proxies/${id}`, json, weak);
    expect(changed.status).toBe(403);
    expect(changed.body.detail).toContain('log:read');
    expect((await send('GET', `/proxies/${id}`)).body).not.toHaveProperty('application_id');
    const ruled = await server.newKey(tenant, {
      permissions: [],
      rules: [{ priority: 1, container: '/pci/', transform: 'reveal', permissions: ['token:read'] }],
    });
    const byRule = await send('POST', '/proxies', { ...base, ...having(ruled.application_id) }, weak);
    expect(byRule.status, byRule.text).toBe(403);
    expect(byRule.body.detail).toContain('token:read');
  });

  test.each([
    ['code', { request_transform: { code } }],
    ['destination', { destination_url: 'https://elsewhere.example.com' }],
    ['openness', { require_auth: false }],
    ['name alone', { name: 'Renamed' }],
    ['application taken away', { application: null }],
  ])('keeps others from changing the proxy: its %s', async (_what, json) => {
    const proxy = await create(having(strong.application_id));
    const body = { ...base, ...having(strong.application_id), ...json };
    const refused = await send('PUT', `/proxies/${proxy.id}`, body, weak);
    expect(refused.status, refused.text).toBe(403);
    expect(refused.body.detail).toContain('log:read');
    expect((await send('GET', `/proxies/${proxy.id}`)).body).toEqual(proxy);
    expect((await send('PUT', `/proxies/${proxy.id}`, body, equal)).status).toBe(200);
  });

  test('that is deleted is gone from its proxies at once, and limits no caller', async () => {
    const doomed = await server.newKey(tenant, { permissions: strongest });
    const { id, key } = await create(having(doomed.application_id));
    await deafen(server);
    expect((await find(key))?.application_id).toBe(doomed.application_id);
    expect((await send('DELETE', `/applications/${doomed.application_id}`)).status).toBe(204);
    expect((await find(key))?.application_id).toBeUndefined();
    expect((await send('GET', `/proxies/${id}`)).body).not.toHaveProperty('application_id');
    expect((await send('PUT', `/proxies/${id}`, { ...base, ...having(doomed.application_id) })).status).toBe(404);
    await change(id, {}, weak);
  });

  test('is checked as it is when a change is written, also after waiting for another change', async () => {
    const { id } = await create();
    const { tenant_id, application_id } = strong;
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    let changing: ReturnType<typeof send> | undefined;
    await operatorTransaction(server.ctx, tenant_id, async (tx) => {
      await tx.signing.change('proxies', id);
      await tx.prisma.proxies.update({ where: { tenant_id_id: { tenant_id, id } }, data: { application_id } });
      changing = send('PUT', `/proxies/${id}`, base, weak);
      await expect.poll(() => server.sql(waiting), { timeout: 10_000 }).toHaveLength(1);
    });
    const refused = await changing;
    expect(refused?.status, refused?.text).toBe(403);
    expect(refused?.body.detail).toContain('log:read');
  });
});

describe('a client certificate', () => {
  const given = { certificate: certificate.cert, private_key: certificate.key };
  const shown = {
    certificate: certificate.cert,
    fingerprint_sha256: new X509Certificate(certificate.cert).fingerprint256,
    expires_at: new Date(new X509Certificate(certificate.cert).validTo).toISOString(),
  };

  test('is not in any response with its key, and found by it', async () => {
    const headers = { 'svc-idempotency-key': 'certified' };
    const answer = await send('POST', '/proxies', { ...base, client_certificate: given }, tenant.api_key, headers);
    expect(answer.status, answer.text).toBe(201);
    const { id, key } = answer.body;
    const answers = [
      answer,
      await send('GET', `/proxies/${id}`),
      await send('PUT', `/proxies/${id}`, { ...base, client_certificate: given }),
    ];
    for (const { body, text } of answers) {
      expect(body.client_certificate).toEqual(shown);
      expect(text).not.toContain('PRIVATE');
    }
    expect((await send('GET', `/proxies?id=${id}`)).text).not.toContain('PRIVATE');
    expect((await find(key))?.client_certificate).toEqual(given);
  });

  test('stays where a change says nothing of it, and goes by null', async () => {
    const { id, key } = await create({ client_certificate: given });
    expect((await change(id, { name: 'Renamed' })).client_certificate).toEqual(shown);
    expect((await find(key))?.client_certificate).toEqual(given);
    expect(await change(id, { client_certificate: null })).not.toHaveProperty('client_certificate');
    expect((await find(key))?.client_certificate).toBeUndefined();
    const other = { certificate: otherCertificate.cert, private_key: otherCertificate.key };
    expect((await change(id, { client_certificate: other })).client_certificate.certificate).toBe(
      otherCertificate.cert,
    );
  });

  test('is kept without what stands around it, a key that was put beside it above all', async () => {
    const { id, key, client_certificate } = await create({
      client_certificate: {
        certificate: `subject=client\n${certificate.key}${certificate.cert}\n${testCa}`,
        private_key: `a key\n${certificate.key}`,
      },
    });
    expect(client_certificate.certificate).toBe(`${certificate.cert}${testCa}`);
    expect((await send('GET', `/proxies/${id}`)).text).not.toContain('PRIVATE');
    expect((await find(key))?.client_certificate?.private_key).toBe(certificate.key);
  });
});

describe('a proxy that is found by its key', () => {
  test('has all that its use takes, in the clear', async () => {
    const { application_id } = await server.newKey(tenant, { permissions: ['token:read'] });
    const { id, key } = await create({ ...full, application: { id: application_id } });
    expect(await find(key)).toEqual({
      tenant_id: tenant.tenant_id,
      id,
      version: 1,
      destination_url: full.destination_url,
      require_auth: false,
      hasExpressions: true,
      timeout_seconds: 90,
      key_ends_at: undefined,
      request_transform: full.request_transform.code,
      response_transform: full.response_transform.code,
      configuration: full.configuration,
      application_id,
      allowed_hosts: ['api.example.com', '*.example.org'],
      client_certificate: undefined,
    });
    const plain = await create();
    expect(await find(plain.key)).toEqual({
      tenant_id: tenant.tenant_id,
      id: plain.id,
      version: 1,
      destination_url: base.destination_url,
      require_auth: true,
      hasExpressions: true,
      timeout_seconds: undefined,
      key_ends_at: undefined,
      request_transform: undefined,
      response_transform: undefined,
      configuration: {},
      application_id: undefined,
      allowed_hosts: undefined,
      client_certificate: undefined,
    });
  });

  /** The server's database, and a function that is called with the parameters of each statement of a name. */
  const watchQueries = (watched: string, seen: (values: unknown[]) => void) => {
    const { db } = server.ctx;
    const query: typeof db.statements.query = (name, text, values) => {
      if (name === watched) seen(values);
      return db.statements.query(name, text, values);
    };
    return { ...db, statements: { ...db.statements, query } };
  };

  test('is found by the whole key alone; what can be no key is not looked for', async () => {
    const { key } = await create();
    const asked: unknown[] = [];
    const watched = watchQueries('find-proxy-by-digest', (values) => asked.push(values));
    const finder = createProxyFinder({ ...server.ctx, db: watched, monotonicMs: () => 0 });
    for (const text of ['', key.slice(1), `${key}0`, ` ${key}`, `${key}\n`, `${key.slice(1)}é`, 'x'.repeat(100_000)])
      expect(await finder.findProxyBeforeCaller(text), text.slice(0, 40)).toBeUndefined();
    expect(asked).toEqual([]);
    const swapped = [...key].map((letter) =>
      letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase(),
    );
    for (const text of ['0'.repeat(32), swapped.join('')])
      expect(await finder.findProxyBeforeCaller(text)).toBeUndefined();
    expect(asked).toHaveLength(2);
  });

  test('is cached for a second; an unknown key is not cached', async () => {
    let looks = 0;
    let clockMs = 1_000;
    const watched = watchQueries('find-proxy-by-digest', () => (looks += 1));
    const finder = createProxyFinder({ ...server.ctx, db: watched, monotonicMs: () => clockMs });
    const { key } = await create();
    await Promise.all([1, 2, 3].map(() => finder.findProxyBeforeCaller(key)));
    expect(looks).toBe(1);
    // Its clock is read once a millisecond at most.
    const pass = async (ms: number) => {
      clockMs += ms;
      await new Promise((resolve) => setTimeout(resolve, 5));
    };
    await pass(999);
    await finder.findProxyBeforeCaller(key);
    expect(looks).toBe(1);
    await pass(2);
    await finder.findProxyBeforeCaller(key);
    expect(looks).toBe(2);
    for (const _ of [1, 2]) await finder.findProxyBeforeCaller('0'.repeat(32));
    expect(looks).toBe(4);
  });

  test('asks for an API key from the very next request on, once it is changed to', async () => {
    const { id, key } = await create({ require_auth: false });
    await deafen(server);
    expect((await find(key))?.require_auth).toBe(false);
    await change(id, { require_auth: true });
    expect((await find(key))?.require_auth).toBe(true);
  });

  test('is gone with its tenant, before anything is swept, and is swept', async () => {
    const doomed = await server.newTenant();
    const { id, key } = await create({ require_auth: false }, doomed.api_key);
    expect(await find(key)).toBeDefined();
    expect((await send('DELETE', '/tenants/self', undefined, doomed.api_key)).status).toBe(204);
    expect(await find(key)).toBeUndefined();
    expect(await server.sql('SELECT * FROM proxy_keys WHERE tenant_id = $1', [doomed.tenant_id])).toEqual([]);
    // Written by a request that was under way.
    await server.sql('INSERT INTO proxy_keys (digest, tenant_id, proxy_id) VALUES ($1, $2, $3)', [
      Buffer.alloc(32),
      doomed.tenant_id,
      id,
    ]);
    await sweepOnce(server.ctx.db, server.ctx.now(), server.ctx.newLogId, server.ctx.config);
    for (const table of ['proxies', 'proxy_keys'])
      expect(await server.sql(`SELECT * FROM ${table} WHERE tenant_id = $1`, [doomed.tenant_id])).toEqual([]);
  });

  test('of a deleted tenant is not found, even if rows are left', async () => {
    const doomed = await server.newTenant();
    const { key } = await create({}, doomed.api_key);
    await server.sql('DELETE FROM tenants WHERE id = $1', [doomed.tenant_id]);
    expect(await find(key)).toBeUndefined();
  });

  describe('in a second process on the same database', () => {
    let other: TestServer;
    beforeAll(async () => {
      other = await startServer({ DATABASE_URL: server.databaseUrl });
    });
    afterAll(() => other.close());

    /** Asks until it is so. */
    const eventually = (key: string, isSo: (found?: ProxyForUse) => boolean) =>
      expect.poll(async () => isSo(await find(key, other)), { timeout: 10_000, interval: 5 }).toBe(true);

    test('is forgotten by the notice of its change, and of the end of its application', async () => {
      const { application_id } = await server.newKey(tenant, { permissions: ['token:read'] });
      const { id, key } = await create({ require_auth: false, application: { id: application_id } });
      expect(await find(key, other)).toMatchObject({ require_auth: false, application_id });
      const changes = hearChanges(other);
      await change(id, { require_auth: true, application: { id: application_id } });
      await changes.of({ subject: 'runnable', id: tenant.tenant_id });
      expect(await find(key, other)).toMatchObject({ require_auth: true, application_id });
      await send('DELETE', `/applications/${application_id}`);
      await changes.of({ subject: 'application', id: application_id });
      expect((await find(key, other))?.application_id).toBeUndefined();
    });

    test('is known at once, and as it is after each change', async () => {
      const { application_id } = await server.newKey(tenant, { permissions: ['token:read'] });
      const { id, key } = await create({ require_auth: false, application: { id: application_id } });
      expect(await find(key, other)).toMatchObject({ id, require_auth: false, application_id });
      expect((await send('DELETE', `/applications/${application_id}`)).status).toBe(204);
      await eventually(key, (found) => found !== undefined && found.application_id === undefined);
      await change(id);
      await eventually(key, (found) => found?.require_auth === true);
      expect((await send('DELETE', `/proxies/${id}`)).status).toBe(204);
      await eventually(key, (found) => found === undefined);
      const doomed = await server.newTenant();
      const theirs = await create({}, doomed.api_key);
      expect(await find(theirs.key, other)).toBeDefined();
      expect((await send('DELETE', '/tenants/self', undefined, doomed.api_key)).status).toBe(204);
      await eventually(theirs.key, (found) => found === undefined);
    });
  });
});
