// Versions of a proxy's transforms and of a reactor's code in the console, and tokens for a request by their masks.
import { beforeAll, describe, expect, test } from 'vitest';
import { type Browser, fieldIn, type SharedConsole, textOf, useConsole } from './support/console.ts';
import { makeReactor } from './support/reactors.ts';
import { changeProxy, makeProxy } from './support/stored-proxies.ts';
import { withoutDrawn } from './support/text.ts';

let server: SharedConsole;
let member: Browser;
beforeAll(async () => {
  server = await useConsole();
  member = await server.signIn();
});

const destination_url = 'https://api.example.com/v1';
const codeOf = (line: string): string => `module.exports = ({ args }) => {\n  ${line}\n  return args;\n};`;
const apiProxy = async (id: string) => (await server.request('GET', `/proxies/${id}`)).body;

const withVersions = async () => {
  const first = { destination_url, request_transform: { code: codeOf('args.n = 1;') } };
  const proxy = await makeProxy(server, first);
  await changeProxy(server, proxy, { ...first, request_transform: { code: codeOf('args.n = "<b>";') } });
  return { proxy, path: `/console/proxies/${proxy.id}` };
};

const become = async (role: string): Promise<Browser> => {
  const other = await server.signIn();
  const path = `/tenants/self/members/${other.member_id}`;
  expect((await server.request('PUT', path, { json: { role } })).status).toBe(200);
  return other;
};

describe('Versions of transforms', () => {
  test('are listed, compared with what runs, and restored by one form', async () => {
    const { proxy, path } = await withVersions();
    const page = await member.get(path);
    expect(page.text).toContain(`href="${path}/versions/1"`);
    expect(page.text).toContain('Restore<span class="unseen"> version 1</span></summary>');
    expect(page.text).not.toContain('>Restore version 2<');
    const version = await member.get(`${path}/versions/1`);
    expect(version.status).toBe(200);
    expect(version.text).toContain('<del>-   args.n = &quot;&lt;b&gt;&quot;;</del><ins>+   args.n = 1;</ins>');
    expect(version.text).toContain(`action="${path}/restore"`);
    const live = await member.get(`${path}/versions/2`);
    expect(live.text).not.toContain(`action="${path}/restore"`);
    expect(live.text).not.toContain('<del>');
    const after = await member.follow(await member.post(`${path}/restore`, { number: '1' }));
    expect(textOf(after.text)).toContain('Version 1 was restored. It runs now as version 3.');
    expect((await apiProxy(proxy.id)).request_transform.code).toContain('args.n = 1;');
    const back = await member.get(`${path}/restore`);
    expect([back.status, back.headers.get('location')]).toEqual([303, path]);
  });

  test('that came and went are shown as added and removed', async () => {
    const proxy = await makeProxy(server, { destination_url, request_transform: { code: codeOf('args.old = 1;') } });
    await changeProxy(server, proxy, { destination_url, response_transform: { code: codeOf('args.now = 1;') } });
    const { text } = await member.get(`/console/proxies/${proxy.id}/versions/1`);
    expect(text).toContain('<ins>+   args.old = 1;</ins>');
    expect(text).toContain('<del>-   args.now = 1;</del>');
  });

  test.each(['0', '9', 'x', '1%2F..%2F2', '1%3Fx'])('number %s is not there', async (number) => {
    const { proxy, path } = await withVersions();
    const before = await apiProxy(proxy.id);
    expect((await member.get(`${path}/versions/${number}`)).status).toBe(404);
    await member.get(path);
    expect((await member.post(`${path}/restore`, { number: decodeURIComponent(number) })).status).toBe(404);
    expect(await apiProxy(proxy.id)).toEqual(before);
  });

  test('are read and not restored by a role that changes no proxy, and are not there for others', async () => {
    const { proxy, path } = await withVersions();
    const developer = await become('DEVELOPER');
    for (const each of [path, `${path}/versions/1`]) {
      const { status, text } = await developer.get(each);
      expect([status, text.includes(`${path}/restore`)]).toEqual([200, false]);
    }
    expect((await developer.post(`${path}/restore`, { number: '1' })).status).toBe(403);
    const support = await become('SUPPORT');
    expect((await support.get(`${path}/versions/1`)).status).toBe(403);
    const anonymous = await server.signIn({ tenant: await server.newTenant() });
    expect((await anonymous.get(`${path}/versions/1`)).status).toBe(404);
    await anonymous.get('/console/proxies');
    expect((await anonymous.post(`${path}/restore`, { number: '1' })).status).toBe(404);
    expect((await apiProxy(proxy.id)).request_transform.code).toContain('<b>');
  });
});

test('a version of a reactor is compared with what runs; long code is cut', async () => {
  const reactor = await makeReactor(server, 'return { raw: 1 };');
  const line = `// ${'é<'.repeat(40)}\n`;
  const code = `${line.repeat(400)}module.exports = () => ({ raw: 2 });`;
  const path = `/console/reactors/${reactor.id}`;
  await member.get(path);
  const { formula } = (await server.request('GET', `/reactors/${reactor.id}`)).body;
  const json = { name: formula.name, type: 'private', code };
  expect((await server.request('PUT', `/reactor-formulas/${formula.id}`, { json })).status).toBe(200);
  for (const number of [1, 2]) {
    const { status, text } = await member.get(`${path}/versions/${number}`);
    expect(status).toBe(200);
    expect(text).toContain('Cut off');
    expect(Buffer.byteLength(text)).toBeLessThan(60 * 1024);
  }
});

describe('A token for a request', () => {
  const typed = { method: 'POST', path: '/charges', headers: '', body: '{"kept":"<b>"}', destination: '' };

  test('is found by the end of its mask, beside what was typed, and shows no value', async () => {
    const number = '5555555555554444';
    const { body: card } = await server.request('POST', '/tokens', { json: { type: 'card_number', data: number } });
    const proxy = await makeProxy(server, { destination_url });
    for (const path of [`/console/proxies/${proxy.id}`, '/console/proxies/test']) {
      await member.get(path);
      const found = await member.post(path, { ...typed, do: 'pick', last4: '4444' });
      expect(found.status).toBe(200);
      expect(found.text).toContain(`<bdi>{{ ${card.id} }}</bdi>`);
      expect(fieldIn(found.text, 'body')).toBe(typed.body);
      expect(withoutDrawn(found.text)).not.toContain(number);
      const none = await member.post(path, { ...typed, do: 'pick', last4: '9137' });
      expect(textOf(none.text)).toContain('No tokens match.');
      const newest = await member.post(path, { ...typed, do: 'pick', last4: '' });
      expect(newest.text).toContain(card.id);
      const odd = await member.post(path, { ...typed, do: 'pick', last4: '"*' });
      expect(textOf(odd.text)).toContain('These are not the last four characters of a mask.');
    }
  });
});
