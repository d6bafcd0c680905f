// New keys in the console: by what they are for, with what that means in words, and a first request that works.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Browser, fieldIn, type SharedConsole, textOf, unescaped, withMembers } from './support/console.ts';
import { type TestTenant, useEgressServer } from './support/server.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';

const PATH = '/console/applications';
const CARD = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };

const run = promisify(execFile);

let server: SharedConsole;
let upstream: Upstream;
let tenant: TestTenant;
let member: Browser;

beforeAll(async () => {
  const { server: shared, port } = await useEgressServer();
  server = withMembers(shared);
  upstream = await startUpstream({ port, answer: (_request, response) => void response.end('charged') });
});
afterAll(() => upstream.close());
beforeEach(async () => {
  tenant = await server.newTenant();
  member = await server.signIn({ tenant });
});

const create = async (fields: Record<string, string>, path = `${PATH}/new`) => {
  const { text } = await member.get(`${PATH}/new`);
  const form_id = /name="form_id" value="([^"]*)"/.exec(text)?.[1] ?? '';
  return member.post(path, { name: 'Made', type: 'private', ends: '90', form_id, ...fields });
};

const made = async (): Promise<any> => {
  const { data } = (await server.request('GET', '/applications', { key: tenant.api_key })).body;
  return data.find(({ name }: { name: string }) => name === 'Made');
};

const keyIn = (page: string): string => /svc_test_[0-9A-Za-z_]{50,}/.exec(page)?.[0] ?? '';

const problemAt = (page: string, name: string): string =>
  textOf(new RegExp(`<span class="problem" id="${name}-problem">(.*?)</span>`, 's').exec(page)?.[1] ?? '');

const curlIn = (page: string): string => unescaped(/<code data-copy="Copy curl">(.*?)<\/code>/s.exec(page)?.[1] ?? '');

/** Runs the command of a page. @returns the status of the answer. */
const runCurl = async (curl: string, SVC_API_KEY: string): Promise<string> => {
  const command = `${curl} -sS -o /dev/null -w '%{http_code}'`;
  const { stdout } = await run('bash', ['-c', command], { env: { ...process.env, SVC_API_KEY } });
  return stdout;
};

describe('what a key is for', () => {
  test.each([
    [
      'charge',
      '200',
      'use the values of tokens below /pci/ in reactors and through proxies',
      ['GET /tokens', 'POST /tokens', 'GET /proxies'],
    ],
    ['store', '201', 'read the masks of tokens below /pci/', ['DELETE /tokens/ID', 'GET /logs']],
    ['read', '200', 'read the values of tokens below /pci/', ['POST /tokens', 'DELETE /tokens/ID', 'GET /logs']],
    ['collect', '201', 'store tokens in /pci/', ['GET /tokens', 'DELETE /tokens/ID', 'GET /logs']],
    ['code', '200', 'read the log', ['GET /tokens', 'POST /tokens', 'GET /applications']],
  ])('%s: its first request is answered %s, and it cannot more', async (job, status, sentence, refused) => {
    const container = job === 'code' ? '' : '/pci/';
    const { body: token } = await server.request('POST', '/tokens', { key: tenant.api_key, json: CARD });
    const fields = { job, container, allowed_addresses: '127.0.0.1\r\n::1', allowed_hosts: 'upstream.test' };
    const { status: answered, text } = await create(fields);
    expect(answered, textOf(text)).toBe(200);
    const key = keyIn(text);
    const curl = curlIn(text)
      .replace('TOKEN_ID', token.id)
      .replace('https://upstream.test/', `https://upstream.test:${upstream.port}/`);
    expect(await runCurl(curl, key)).toBe(status);
    const application = await made();
    expect(textOf((await member.get(`${PATH}/${application.id}`)).text)).toContain(sentence);
    const { data } = (await server.request('GET', `/applications/${application.id}/keys`, { key: tenant.api_key }))
      .body;
    expect(data).toEqual([expect.objectContaining({ allowed_addresses: ['127.0.0.1', '::1'] })]);
    const days = (Date.parse(data[0].expires_at) - Date.parse(data[0].created_at)) / 86_400_000;
    expect(Math.round(days)).toBe(90);
    for (const operation of refused) {
      const [method = '', path = ''] = operation.replace('ID', token.id).split(' ');
      const answer = await server.request(method, path, { key, ...(method === 'POST' && { json: CARD }) });
      expect([operation, answer.status]).toEqual([operation, 403]);
    }
  });

  test('a key of one container reads values there, and none of another', async () => {
    const key = keyIn((await create({ job: 'read', container: '/pci/', ends: '' })).text);
    const store = (json: object) => server.request('POST', '/tokens', { key: tenant.api_key, json });
    const { body: card } = await store(CARD);
    const { body: other } = await store({ type: 'token', data: 'x' });
    expect((await server.request('GET', `/tokens/${card.id}`, { key })).body.data).toEqual(CARD.data);
    expect((await server.request('GET', `/tokens/${other.id}`, { key })).status).toBe(403);
  });

  test.each([
    ['container', { job: 'read', container: 'pci' }],
    ['container', { job: 'collect', container: '/pci' }],
    ['container', { job: 'code', container: '/pci/' }],
    ['job', { job: 'charge', 'permission.token:read': 'yes' }],
    ['job', { job: 'charge', rules: '[]' }],
    ['allowed_addresses', { job: 'read', allowed_addresses: '192.0.2.0/24\n\nno network' }],
    ['ends', { job: 'read', ends: '2001-01-01' }],
    ['allowed_origins', { job: 'read', allowed_origins: 'https://shop.test' }],
  ] as [string, Record<string, string>][])(
    'that is wrong says so beside %s and makes nothing: %j',
    async (name, wrong) => {
      const { status, text } = await create(wrong);
      expect([400, 422]).toContain(status);
      expect(problemAt(text, name)).not.toBe('');
      if (name === 'allowed_addresses') expect(problemAt(text, name)).toContain('Line 3');
      expect(fieldIn(text, 'name')).toBe('Made');
      expect(await made()).toBeUndefined();
      // The form that is sent again with its faults mended makes one.
      const form_id = fieldIn(text, 'form_id') ?? '';
      const mended = await member.post(`${PATH}/new`, { name: 'Made', job: 'read', ends: '30', form_id });
      expect(mended.status, textOf(mended.text)).toBe(200);
      expect(keyIn(mended.text)).not.toBe('');
    },
  );

  test('is sent twice and makes one key, shown once', async () => {
    const { text } = await member.get(`${PATH}/new`);
    const fields = { name: 'Made', job: 'store', ends: '30', form_id: fieldIn(text, 'form_id') ?? '' };
    const first = await member.post(`${PATH}/new`, fields);
    expect(keyIn(first.text)).not.toBe('');
    const second = await member.post(`${PATH}/new`, fields);
    expect([second.status, second.headers.get('location')]).toEqual([303, expect.stringContaining('done=shown')]);
    const { id } = await made();
    expect((await server.request('GET', `/applications/${id}/keys`, { key: tenant.api_key })).body.data).toHaveLength(
      1,
    );
  });

  test('is said without script by a button, which makes nothing; texts are no markup', async () => {
    const { status, text } = await create({ job: 'read', container: '/pci/', name: '<b>x' }, `${PATH}/check`);
    expect(status).toBe(200);
    expect(textOf(text)).toContain('read the values of tokens below /pci/');
    expect(fieldIn(text, 'container')).toBe('/pci/');
    const rules = JSON.stringify([
      {
        priority: 1,
        conditions: [{ attribute: 'id', operator: 'equals', value: '<script>alert(1)</script>' }],
        transform: 'mask',
        permissions: ['token:read'],
      },
    ]);
    const custom = (await create({ job: 'custom', rules }, `${PATH}/check`)).text;
    expect(textOf(custom)).toContain('whose id is <script>alert(1)</script>');
    expect(custom).not.toContain('<script>alert');
    for (const wrong of ['[', '{}', '[1]', '[{}]', 'null'])
      expect(textOf((await create({ job: 'custom', rules: wrong }, `${PATH}/check`)).text)).toContain('not complete');
    expect(await made()).toBeUndefined();
    const support = await server.signIn({ tenant });
    const role = `/tenants/self/members/${support.member_id}`;
    await server.request('PUT', role, { key: tenant.api_key, json: { role: 'SUPPORT' } });
    expect((await support.post(`${PATH}/check`, { job: 'read' })).status).toBe(403);
  });
});
