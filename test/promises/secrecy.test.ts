// No planted value in logs, errors, table columns, WAL or dumps, in eight encodings, and no
// sealed value that opens after it was tampered with. The scanner is itself tested by planting one.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import PostalMime from 'postal-mime';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { sendDueMails } from '../../src/modules/people/send-mails.ts';
import { certificateFor } from '../support/certificates.ts';
import { openBrowser } from '../support/people.ts';
import { type ReactorServer, startReactorServer } from '../support/reactors.ts';
import type { Answer, TestServer } from '../support/server.ts';

let fixture: ReactorServer;
let server: TestServer;
beforeAll(async () => {
  fixture = await startReactorServer();
  ({ server } = fixture);
});
afterAll(() => fixture.close());

/** Values that no other test has: the files of the database have what all tests write. */
const canaries = {
  note: `canary-${crypto.randomUUID()}`,
  changed: `changed-${crypto.randomUUID()}`,
  number: '4556737586899855',
  cvc: '90271'.slice(0, 4),
  account: '70418263544091639',
  code: `code-${crypto.randomUUID()}`,
  configuration: `configuration-${crypto.randomUUID()}`,
  route: `route-${crypto.randomUUID()}`,
  email: `address-${crypto.randomUUID()}@example.com`,
  first_name: `first-${crypto.randomUUID()}`,
  last_name: `last-${crypto.randomUUID()}`,
  password: `password-${crypto.randomUUID()}`,
};

/** Looked for everywhere; four digits of a security code stand in many an id. */
const wanted = [
  canaries.note,
  canaries.changed,
  canaries.number,
  canaries.account,
  canaries.code,
  canaries.configuration,
  canaries.route,
  canaries.email,
  canaries.first_name,
  canaries.last_name,
  canaries.password,
];

const encodings = (value: string): Buffer[] => {
  const bytes = Buffer.from(value);
  const base64At = (offset: number) => {
    const text = Buffer.concat([Buffer.alloc(offset, 1), bytes]).toString('base64');
    // The first and last characters depend on the neighbours.
    return text.slice(offset === 0 ? 0 : 4, -4);
  };
  const texts = [
    value,
    JSON.stringify(value).slice(1, -1),
    encodeURIComponent(value),
    base64At(0),
    base64At(1),
    base64At(2),
    bytes.toString('hex'),
  ];
  return [...texts.map((text) => Buffer.from(text)), Buffer.from(value, 'utf16le')];
};

const hits = (haystack: Buffer, value: string): number =>
  encodings(value).filter((needle) => haystack.includes(needle)).length;

const READINGS_MAX = 20;

/** Everything of the database that a thief of its files would have: its directory, WAL included. */
const databaseFiles = async (): Promise<string[]> => {
  const [{ name, oid }] = await server.sql(
    'SELECT datname AS name, oid FROM pg_database WHERE datname = current_database()',
  );
  // What the vault's own role may not ask, its thief would not need to.
  const superuser = new Client({ ...inject('databaseServer'), user: 'postgres', database: name });
  await superuser.connect();
  await superuser.query('CHECKPOINT');
  const [{ data_directory }] = (await superuser.query('SHOW data_directory')).rows;
  await superuser.end();
  const paths: string[] = [];
  for (const folder of ['pg_wal', `base/${oid}`])
    for (const name of readdirSync(join(data_directory, folder))) {
      const path = join(data_directory, folder, name);
      if (statSync(path).isFile()) paths.push(path);
    }
  return paths;
};

/**
 * Shows each of these files. Meanwhile PostgreSQL may rename segments of the WAL and write its caches anew: then all files are
 * listed again, so that none is missed under a new name.
 */
const readDatabase = async (look: (bytes: Buffer, path: string) => void): Promise<void> => {
  for (let reading = 1; ; reading += 1)
    try {
      for (const path of await databaseFiles()) look(readFileSync(path), path);
      return;
    } catch (error) {
      const isRenamed = (error as NodeJS.ErrnoException).code === 'ENOENT';
      if (!isRenamed || reading === READINGS_MAX) throw error;
    }
};

test('the scanner finds a planted value in every encoding', () => {
  for (const needle of encodings(canaries.note))
    expect(hits(Buffer.concat([Buffer.from('xx'), needle, Buffer.from('yy')]), canaries.note)).toBeGreaterThan(0);
});

test('the scanner finds what is in the database in the clear', async () => {
  const planted = `planted-${crypto.randomUUID()}`;
  await server.sql('CREATE TABLE planted (text text)');
  await server.sql('INSERT INTO planted VALUES ($1)', [planted]);
  const found: string[] = [];
  await readDatabase((bytes, path) => {
    if (hits(bytes, planted) > 0) found.push(path);
  });
  expect(found).not.toEqual([]);
});

type Ask = (
  status: number,
  method: string,
  path: string,
  options: Parameters<TestServer['request']>[2],
) => Promise<Answer>;

/** Code and configurations, made, changed, read and run, rightly and wrongly; and values in and out of code. */
const useReactors = async (ask: Ask, made: { note: string; card: { id: string } }): Promise<void> => {
  const code = `const key = '${canaries.code}';
module.exports = async ({ args, configuration }) => {
  if (args.fail === 'thrown') throw new Error('no');
  if (args.fail === 'result') return key;
  console.log(key, configuration.KEY, args);
  return { raw: [key, configuration.KEY, args], tokenize: [args.note, configuration.KEY] };
};
`;
  const formula = {
    name: 'Secretive',
    type: 'private',
    code,
    configuration: [{ name: 'KEY', type: 'string' }],
    request_parameters: [{ name: 'amount', type: 'number', optional: true }],
  };
  const configuration = { KEY: canaries.configuration };
  const keyed = (key: string) => ({ 'svc-idempotency-key': key });
  const post = '/reactor-formulas';
  const { id: formula_id } = (await ask(201, 'POST', post, { json: formula, headers: keyed('formula') })).body;
  await ask(201, 'POST', post, { json: formula, headers: keyed('formula') });
  const syntax = { ...formula, code: `${code}\nconst = '${canaries.code}'` };
  await ask(422, 'POST', post, { json: syntax });
  await ask(400, 'POST', post, { json: { ...formula, icon: canaries.code, type: canaries.code } });
  await ask(200, 'PUT', `${post}/${formula_id}`, { json: { ...formula, name: 'Renamed' } });
  await ask(200, 'GET', post, {});
  const reactor = { name: 'Reactor', formula: { id: formula_id }, configuration };
  const { id } = (await ask(201, 'POST', '/reactors', { json: reactor, headers: keyed('reactor') })).body;
  await ask(201, 'POST', '/reactors', { json: reactor, headers: keyed('reactor') });
  await ask(400, 'POST', '/reactors', { json: { ...reactor, configuration: { OTHER: canaries.configuration } } });
  await ask(400, 'POST', '/reactors', { json: { ...reactor, configuration: canaries.configuration } });
  await ask(200, 'PUT', `/reactors/${id}`, { json: reactor, headers: keyed('change') });
  await ask(200, 'GET', '/reactors', {});
  const react = `/reactors/${id}/react`;
  const args = { note: `{{ ${made.note} }}`, card: `{{ ${made.card.id} }}`, plain: canaries.note };
  for (let round = 0; round < 2; round += 1) await ask(200, 'POST', react, { json: { args }, headers: keyed('react') });
  await ask(400, 'POST', react, { json: { args: { ...args, amount: `{{ ${made.note} }}` } } });
  await ask(500, 'POST', react, { json: { args: { ...args, fail: 'thrown' } } });
  await ask(500, 'POST', react, { json: { args: { ...args, fail: 'result' } } });
};

/** Routes with code, configuration and a client's key, made, changed, read and used, rightly and wrongly. @returns secrets of the proxy. */
const useProxies = async (ask: Ask, made: { note: string; card: { id: string } }): Promise<string[]> => {
  const code = `const key = '${canaries.code}';
module.exports = async ({ args, configuration }) => {
  console.log(key, configuration.KEY, args);
  if (args.path === '/thrown') throw new Error('no');
  return { body: args.body, headers: { ...args.headers, 'x-key': configuration.KEY } };
};
`;
  const { cert, key: private_key } = certificateFor('client.upstream.test');
  const proxy = {
    name: 'Secretive',
    destination_url: `${fixture.url}/${canaries.route}`,
    request_transform: { code },
    response_transform: { code },
    configuration: { KEY: canaries.configuration },
    client_certificate: { certificate: cert, private_key },
  };
  const keyed = (key: string) => ({ 'svc-idempotency-key': key });
  const { id, key } = (await ask(201, 'POST', '/proxies', { json: proxy, headers: keyed('proxy') })).body;
  await ask(201, 'POST', '/proxies', { json: proxy, headers: keyed('proxy') });
  await ask(400, 'POST', '/proxies', { json: { ...proxy, destination_url: `http://${canaries.route}` } });
  await ask(400, 'POST', '/proxies', { json: { ...proxy, configuration: { 'a b': canaries.configuration } } });
  await ask(422, 'POST', '/proxies', { json: { ...proxy, request_transform: { code: `${code} const = 1` } } });
  await ask(200, 'PUT', `/proxies/${id}`, { json: proxy, headers: keyed('proxy-change') });
  await ask(200, 'GET', '/proxies', {});
  const json = { note: `{{ ${made.note} }}`, card: `{{ ${made.card.id} }}`, plain: canaries.note };
  const stored = { 'svc-proxy-key': key };
  const direct = { 'svc-proxy-url': `${fixture.url}/${canaries.route}` };
  const secretQuery = `/proxy/${canaries.route}?a=${canaries.note}`;
  for (const headers of [stored, direct]) {
    await ask(200, 'POST', secretQuery, { json, headers });
    await ask(400, 'POST', secretQuery, { json: { ...json, wrong: `{{ '${canaries.note}' | no }}` }, headers });
    await ask(400, 'POST', `${secretQuery}{{`, { json, headers });
  }
  await ask(200, 'POST', `${secretQuery}&svc-proxy-key=${key}`, { json });
  await ask(500, 'POST', '/proxy/thrown', { json, headers: stored });
  await ask(400, 'POST', secretQuery, { json, headers: { 'svc-proxy-url': `https://127.0.0.1/${canaries.route}` } });
  await ask(502, 'POST', secretQuery, { json, headers: { 'svc-proxy-url': `${fixture.movingUrl}/${canaries.route}` } });
  return [key, private_key.split('\n')[1] as string];
};

/** The secret of the newest link, as the mail to it says. */
const secretInMail = async (): Promise<string> => {
  const { mail } = server.ctx.config;
  if (mail?.kind !== 'files') throw new Error('mails go elsewhere');
  await sendDueMails(server.ctx, server.base_url);
  const paths = readdirSync(mail.directory).map((name) => join(mail.directory, name));
  const newest = paths.toSorted((one, other) => statSync(one).mtimeMs - statSync(other).mtimeMs).at(-1) ?? '';
  const { text = '' } = await PostalMime.parse(readFileSync(newest));
  expect(text).toContain('/join/');
  return /\/join\/([0-9A-Za-z]{32})/.exec(text)?.[1] ?? '';
};

/** Somebody is invited, accepts, signs in and goes, rightly and wrongly. @returns secrets of links and sessions. */
const usePeople = async (ask: Ask): Promise<string[]> => {
  const { email, first_name, last_name, password } = canaries;
  const invitations = '/tenants/self/invitations';
  const headers = { 'svc-idempotency-key': 'invitation' };
  const { id } = (await ask(201, 'POST', invitations, { json: { email }, headers })).body;
  await ask(201, 'POST', invitations, { json: { email }, headers });
  const first = await secretInMail();
  await ask(400, 'POST', invitations, { json: { email: `${first_name} <${email}>` } });
  await ask(400, 'POST', invitations, { json: { email: [email] } });
  await ask(400, 'GET', `${invitations}?status=${email}`, {});
  await ask(200, 'POST', `${invitations}/${id}/resend`, {});
  await ask(200, 'GET', `${invitations}/${id}`, {});
  await ask(200, 'GET', invitations, {});
  const secret = await secretInMail();
  expect(secret).not.toBe(first);
  const browser = openBrowser(server);
  const person = { first_name, last_name, password };
  const statusOf = async (path: string, fields: Record<string, string>) => (await browser.post(path, fields)).status;
  expect(await statusOf(`/join/${first}`, person)).toBe(410);
  expect(await statusOf(`/join/${secret}`, { ...person, first_name: '' })).toBe(422);
  expect((await browser.get(`/join/${secret}`)).status).toBe(200);
  expect(await statusOf(`/join/${secret}`, person)).toBe(303);
  const sessions = [browser.cookies.get('strongroom') ?? ''];
  expect(await statusOf('/console/sign-in', { email, password: `${password}x` })).toBeGreaterThanOrEqual(400);
  expect(await statusOf('/console/sign-in', { email: `x${email}`, password })).toBeGreaterThanOrEqual(400);
  expect(await statusOf('/console/sign-in', { email, password })).toBe(303);
  sessions.push(browser.cookies.get('strongroom') ?? '');
  for (const current_password of [`${password}x`, password]) {
    const typed = { csrf: await browser.csrf(), current_password, new_password: `another-${password}` };
    expect(await statusOf('/console/password', typed)).toBe(current_password === password ? 303 : 422);
  }
  sessions.push(browser.cookies.get('strongroom') ?? '');
  expect(new Set(sessions).size).toBe(3);
  for (const session of sessions) expect(session).toMatch(/^\w{40,}$/);
  await ask(409, 'POST', invitations, { json: { email } });
  const members = (await ask(200, 'GET', '/tenants/self/members', {})).body.data;
  expect(members).toMatchObject([{ user: { email, first_name, last_name } }]);
  await ask(204, 'DELETE', `/tenants/self/members/${members[0].id}`, {});
  return [first, secret, ...sessions];
};

/** Every other way in which a value or a key travels, rightly and wrongly; none of the failures repeats a value. */
const useEverything = async (made: { note: string; card: { id: string } }): Promise<{ secrets: string[] }> => {
  const once = { 'svc-idempotency-key': crypto.randomUUID() };
  const merge = { 'content-type': 'application/merge-patch+json' };
  const ask = async (status: number, method: string, path: string, options: Parameters<TestServer['request']>[2]) => {
    const answer = await server.request(method, path, options);
    expect(answer.status, `${method} ${path}: ${answer.text}`).toBe(status);
    if (status >= 400) for (const value of wanted) expect(hits(Buffer.from(answer.text), value)).toBe(0);
    return answer;
  };
  const patch = (data: unknown) => ({ headers: { ...merge, ...once }, body: JSON.stringify({ data }) });
  await ask(200, 'PATCH', `/tokens/${made.note}`, patch(canaries.changed));
  await ask(200, 'PATCH', `/tokens/${made.note}`, patch(canaries.changed));
  await ask(400, 'PATCH', `/tokens/${made.card.id}`, {
    headers: merge,
    body: `{"data":{"number":"${canaries.note}"}}`,
  });
  const child = { data: canaries.note, search_indexes: ['{{ data }}'], metadata: { is: 'child' } };
  await ask(201, 'POST', `/tokens/${made.note}/children`, { json: child, headers: { 'idempotency-key': 'child' } });
  await ask(200, 'GET', `/tokens/${made.note}/children`, {});
  await ask(200, 'GET', '/tokens', {});
  await ask(200, 'POST', '/tokens/search', { json: { query: `data:"${canaries.note}" OR data:${canaries.number}` } });
  await ask(400, 'POST', '/tokens/search', { json: { query: `data:"${canaries.note}` } });
  await ask(200, 'POST', '/detokenize', { json: { a: `{{ ${made.note} }}`, b: canaries.note } });
  await ask(400, 'POST', '/detokenize', {
    json: { a: `{{ ${made.note} | json: '$' }} {{ '${canaries.note}' | no }}` },
  });
  await useReactors(ask, made);
  const secrets = [...(await useProxies(ask, made)), ...(await usePeople(ask))];
  const application = { name: 'Made', permissions: ['token:read'] };
  const made2 = await ask(201, 'POST', '/applications', { json: application, headers: { 'idempotency-key': 'app' } });
  const again = await ask(200, 'POST', `/applications/${made2.body.id}/regenerate`, {});
  await ask(200, 'GET', '/logs', {});
  return { secrets: [...secrets, again.body.key.split('_')[3] as string] };
};

test('no value reaches logs, errors, tables or WAL', async () => {
  const card = {
    type: 'card',
    data: { number: canaries.number, expiration_month: 1, expiration_year: 2031, cvc: canaries.cvc },
    search_indexes: ['{{ data.number }}'],
  };
  const body = {
    note: canaries.note,
    card,
    bank: { type: 'bank', data: { routing_number: '021000021', account_number: canaries.account } },
  };
  const made = await server.tokenize(body);
  expect(made.status, made.text).toBe(200);
  await server.request('GET', `/tokens/${made.body.note}`);
  const answers = [
    await server.tokenize([body, { type: 'card', data: { number: canaries.number, expiration_month: 99 } }]),
    await server.tokenize({ type: 'card', data: canaries.number }),
    await server.tokenize({ type: canaries.note, data: 'x' }),
    await server.tokenize({ type: 'token', data: canaries.note, mask: `{{ data | json: '$.${canaries.note}' }}` }),
    await server
      .tokenize({ type: 'token', data: canaries.note, id: 'taken-1' })
      .then(() => server.tokenize({ type: 'token', data: canaries.note, id: 'taken-1' })),
    await server.request('POST', '/tokenize', {
      headers: { 'content-type': 'application/json' },
      body: `{"n":"${canaries.note}`,
    }),
    await server.request('POST', '/tokenize', { headers: { 'content-type': 'text/plain' }, body: canaries.note }),
  ];
  for (const answer of answers) {
    expect(answer.status).toBeGreaterThanOrEqual(400);
    for (const value of [canaries.note, canaries.number, canaries.account])
      expect(hits(Buffer.from(answer.text), value)).toBe(0);
  }
  const { secrets } = await useEverything(made.body);
  const log = Buffer.from(server.logLines.join(''));
  const values = [...wanted, server.tenant.api_key.split('_')[3] as string, ...secrets];
  for (const value of values) expect(hits(log, value)).toBe(0);
  await readDatabase((bytes, path) => {
    for (const value of values) expect(hits(bytes, value), path).toBe(0);
  });
});

test('a moved or changed ciphertext does not open: a 500 without a word of it, and an alarm', async () => {
  const [one, two] = (await server.tokenize(['first secret', 'second secret'])).body as [string, string];
  const other = await server.newTenant();
  const foreign = (await server.tokenize('foreign secret', other.api_key)).body as string;
  const { sealed } = (await server.sql('SELECT sealed FROM tokens WHERE id = $1', [one]))[0];
  const read = async (id: string) => {
    const answer = await server.request('GET', `/tokens/${id}`);
    expect(answer.status).toBe(500);
    expect(answer.text).not.toContain('secret');
    expect(answer.body.detail).toBe('An internal error occurred.');
  };
  await server.sql('UPDATE tokens SET sealed = $2 WHERE id = $1', [two, sealed]);
  await read(two);
  const theirs = (await server.sql('SELECT sealed FROM tokens WHERE id = $1', [foreign]))[0].sealed;
  await server.sql('UPDATE tokens SET sealed = $2 WHERE id = $1', [two, theirs]);
  await read(two);
  for (const at of [0, 3, 20, 45, sealed.length - 1]) {
    const flipped = Buffer.from(sealed);
    flipped[at] = (flipped[at] as number) ^ 1;
    await server.sql('UPDATE tokens SET sealed = $2 WHERE id = $1', [one, flipped]);
    await read(one);
  }
  await server.sql(`UPDATE tokens SET sealed = $2, type = 'card_number' WHERE id = $1`, [one, sealed]);
  await read(one);
  expect(server.logLines.filter((line) => line.includes('"alarm":"tampered"')).length).toBeGreaterThanOrEqual(8);
  await server.sql(`UPDATE tokens SET type = 'token' WHERE id = $1`, [one]);
  expect((await server.request('GET', `/tokens/${one}`)).body.data).toBe('first secret');
});

test('two ciphertexts of one value differ', async () => {
  const ids = (await server.tokenize(['same', 'same'])).body;
  const rows = await server.sql('SELECT sealed, fingerprint FROM tokens WHERE id = ANY($1)', [ids]);
  expect(rows[0].fingerprint).toBe(rows[1].fingerprint);
  expect(rows[0].sealed.equals(rows[1].sealed)).toBe(false);
});
