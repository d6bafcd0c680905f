// The console's pages of forwards: what became of a request with an idempotency key, its text, and sending it again, with and without script.
import type { ServerResponse } from 'node:http';
import type { Browser as Chromium } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { launchChromium, openPerson } from './support/chromium.ts';
import { type Browser, textOf, withMembers } from './support/console.ts';
import { join } from './support/people.ts';
import { isInstalled } from './support/programs.ts';
import { tokenOf } from './support/reactors.ts';
import { type SharedServer, type TestTenant, useEgressServer } from './support/server.ts';
import { makeProxy, type StoredProxy } from './support/stored-proxies.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';

const PATH = '/console/forwards';
const NUMBER = '5555555555554444';
const CARD = { number: NUMBER, expiration_month: 12, expiration_year: 2040 };

let server: ReturnType<typeof withMembers<SharedServer>>;
let upstream: Upstream;
let destination_url: string;
let tenant: TestTenant;
let proxy: StoredProxy;
let card: string;
let owner: Browser;
let count = 0;

const created = (response: ServerResponse) =>
  void response
    .writeHead(201, { 'content-type': 'application/json' })
    .end('{"charge":"ch_1","card":"4242424242424242"}');
const reset = (response: ServerResponse) => void response.socket?.destroy();
/** What the next requests get. */
const answers: ((response: ServerResponse) => void)[] = [];

beforeAll(async () => {
  const egress = await useEgressServer();
  server = withMembers(egress.server);
  upstream = await startUpstream({
    port: egress.port,
    answer: (_, response) => (answers.shift() ?? created)(response),
  });
  destination_url = `https://upstream.test:${upstream.port}`;
});
afterAll(() => upstream.close());
beforeEach(async () => {
  tenant = await server.newTenant();
  const { api_key: key } = tenant;
  proxy = await makeProxy(server, { name: 'Payments', destination_url }, key);
  card = await tokenOf(server, CARD, { type: 'card' }, key);
  owner = await server.signIn({ tenant });
});

/** @returns the id of the record. */
const forward = async (...answering: typeof answers): Promise<string> => {
  count += 1;
  answers.push(...answering);
  const answer = await server.request('POST', `/proxy/charges/${count}`, {
    key: tenant.api_key,
    body: `{"number":"{{ ${card} | json: '$.number' }}","note":"4111111111111111"}`,
    headers: {
      'svc-proxy-key': proxy.key,
      'svc-idempotency-key': `console-${count}`,
      'content-type': 'application/json',
      authorization: 'Bearer of-the-first',
    },
  });
  return answer.headers.get('svc-forward-id') as string;
};

/** Those of this request, first and again. */
const sent = () => upstream.received.filter(({ url }) => url === `/charges/${count}`);

const show = async (path: string, by = owner): Promise<string> => {
  const { status, text } = await by.get(path);
  expect(status, text).toBe(200);
  return text;
};

const read = async (id: string) => (await server.request('GET', `/forwards/${id}`, { key: tenant.api_key })).body;

/** Opens the page, and sends its form with this tick and more. */
const sendAgain = async (id: string, fields: Record<string, string>, by = owner) => {
  const form_id = /name="form_id" value="([^"]+)"/.exec(await show(`${PATH}/${id}`, by))?.[1] ?? '';
  return by.post(`${PATH}/${id}/replay`, { form_id, ...fields });
};

describe('the list', () => {
  test('has state, status, host, proxy and application, and unknown ones stand out', async () => {
    const [done, lost] = [await forward(), await forward(reset)];
    const page = await show(PATH);
    const words = textOf(page.replaceAll('<', ' <')).replace(/\s+/g, ' ');
    expect(words).toMatch(/answered 201 POST upstream\.test:\d+ Payments First application/);
    expect(page).toContain('<span class="badge bad">unknown</span>');
    for (const id of [done, lost]) expect(page).toContain(`href="${PATH}/${id}"`);
    expect(page).toContain(`href="/console/proxies/${proxy.id}"`);
  });

  test('is filtered by state, proxy and time, each in the URL', async () => {
    const id = await forward(reset);
    const now = new Date(server.ctx.now().getTime() + 60_000).toISOString();
    for (const [query, isFound] of [
      ['state=unknown', true],
      ['state=answered', false],
      [`state=&proxy_id=${proxy.id}`, true],
      [`proxy_id=${id}`, false],
      [`start_date=${now}`, false],
      [`end_date=${now}`, true],
    ] as const) {
      const page = await show(`${PATH}?${query}`);
      expect([query, page.includes(`${PATH}/${id}`)]).toEqual([query, isFound]);
    }
    const wrong = await owner.get(`${PATH}?state=odd&proxy_id=<b>`);
    expect(wrong.status).toBe(400);
    for (const name of ['state', 'proxy_id']) expect(wrong.text).toContain(`name="${name}" aria-invalid="true"`);
    expect(wrong.text).not.toContain('<b>');
  });

  test('and a record are not for roles without forward:read, nor for another tenant', async () => {
    const id = await forward();
    const developer = await server.signIn({ tenant });
    const path = `/tenants/self/members/${developer.member_id}`;
    await server.request('PUT', path, { json: { role: 'DEVELOPER' }, key: tenant.api_key });
    for (const page of [PATH, `${PATH}/${id}`]) expect((await developer.get(page)).status).toBe(403);
    await developer.get('/console/tokens');
    expect((await developer.post(`${PATH}/${id}/replay`, { sure: 'answered' })).status).toBe(403);
    for (const page of [`/console/proxies/${proxy.id}`, '/console/home'])
      expect(await show(page, developer)).not.toContain(PATH);
    const anonymous = await server.signIn({ tenant: await server.newTenant() });
    expect(await show(PATH, anonymous)).toContain('No forwards match.');
    expect((await anonymous.get(`${PATH}/${id}`)).status).toBe(404);
    expect((await anonymous.post(`${PATH}/${id}/replay`, { sure: 'answered' })).status).toBe(404);
    expect(sent()).toHaveLength(1);
  });

  test('is linked from the proxy, the run, Find, and Home while an outcome is unknown', async () => {
    const id = await forward(reset);
    expect(await show(`/console/proxies/${proxy.id}`)).toContain(`href="${PATH}?proxy_id=${proxy.id}"`);
    const run = await vi.waitFor(async () => {
      const { body } = await server.request('GET', '/runs', { key: tenant.api_key });
      expect(body.data).toMatchObject([{ kind: 'proxy' }]);
      return body.data[0];
    });
    expect(await show(`/console/runs/${run.id}`)).toContain(`href="${PATH}/${id}"`);
    expect((await owner.get(`/console/find?q=${id}`)).headers.get('location')).toBe(`${PATH}/${id}`);
    expect(textOf(await show('/console/home'))).toContain('1 unknown');
    await owner.follow(await sendAgain(id, { sure: 'unknown' }));
    expect(textOf(await show('/console/home'))).not.toContain('1 unknown');
  });
});

describe('the page of one', () => {
  test('has its states over time, and no request or response before they are asked for', async () => {
    const id = await forward();
    const page = await show(`${PATH}/${id}`);
    expect(textOf(page)).toMatch(/Begun by First application .*Sent to upstream\.test:\d+ .*Answered with 201 /s);
    expect(page).toContain(`/console/tokens/${card}`);
    expect(page).not.toMatch(/ch_1|\/charges\//);
    const unknown = await show(`${PATH}/${await forward(reset)}`);
    expect(textOf(unknown)).toContain('ask it before you send it again');
    expect(textOf(unknown)).not.toContain('Answered with');
  });

  test('has expressions, names of headers and the kept response on request, which is logged', async () => {
    const id = await forward();
    const page = await show(`${PATH}/${id}?bodies=yes`);
    const words = textOf(page);
    for (const part of [`POST /charges/${count}`, `{{ ${card} | json: '$.number' }}`, 'authorization', 'ch_1'])
      expect(words).toContain(part);
    expect(page).not.toMatch(/of-the-first|5555555555554444|4111111111111111|4242424242424242/);
    const { body } = await server.request('GET', `/logs?entity_id=${id}`, { key: tenant.api_key });
    expect(body.data).toMatchObject([{ operation: 'read', entity_type: 'forward', actor_id: owner.user_id }]);
  });

  test('leaves out a response of a token that is gone, and what is older than a day', async () => {
    const id = await forward();
    await server.request('DELETE', `/tokens/${card}`, { key: tenant.api_key });
    const page = await show(`${PATH}/${id}?bodies=yes`);
    expect(textOf(page)).toContain('The response is left out');
    expect(page).not.toContain('ch_1');
    const old = `019a0000-0000-7000-8000-${id.slice(-12)}`;
    await server.sql('UPDATE forwards SET id = $2 WHERE id = $1', [id, old]);
    const aged = textOf(await show(`${PATH}/${old}?bodies=yes`));
    expect(aged).toContain('They are kept for a day, which is over.');
    expect(aged).toContain('The request is no longer stored: its day is over.');
  });
});

describe('Send again', () => {
  test('needs a tick, for the state that the page showed, and then sends one new request', async () => {
    const id = await forward(reset);
    const unticked = await sendAgain(id, {});
    expect([unticked.status, textOf(unticked.text).includes('Nothing was sent.')]).toEqual([422, true]);
    const other = await sendAgain(id, { sure: 'failed' });
    expect([other.status, textOf(other.text).includes('Its state has changed')]).toEqual([409, true]);
    expect(sent()).toHaveLength(1);
    const answer = await sendAgain(id, { sure: 'unknown' });
    const page = await owner.follow(answer);
    expect(textOf(page.text)).toContain('this is the record of the new request');
    expect(page.text).toContain(`href="${PATH}/${id}"`);
    const [, new_id = ''] = /forwards\/([^?]+)\?/.exec(answer.headers.get('location') ?? '') ?? [];
    expect(await read(new_id)).toMatchObject({ state: 'answered', replay_of: id, actor_id: owner.user_id });
    expect(textOf(await show(`${PATH}/${new_id}`))).not.toContain('It was sent again before');
    expect(await show(`${PATH}/${id}`)).toContain(`It was sent again before: <a href="${PATH}/${new_id}"`);
    expect(sent()).toHaveLength(2);
  });

  test('by a form that is sent twice sends once, and with another choice says so', async () => {
    const id = await forward();
    const other = await makeProxy(server, { name: 'Other', destination_url }, tenant.api_key);
    const fields = { sure: 'answered', form_id: crypto.randomUUID() };
    const first = await sendAgain(id, fields);
    expect((await sendAgain(id, fields)).headers.get('location')).toBe(first.headers.get('location'));
    const refused = await sendAgain(id, { ...fields, proxy_id: other.id });
    expect(refused.status).toBe(422);
    expect(textOf(refused.text)).toContain('The idempotency key was used for another request.');
    expect(refused.text).not.toContain(fields.form_id);
    expect(refused.text).toContain(first.headers.get('location')?.split('?')[0]);
    expect(sent()).toHaveLength(2);
  });

  test('goes through another proxy, without headers of the first client', async () => {
    const id = await forward();
    const other = await makeProxy(server, { name: 'Other', destination_url }, tenant.api_key);
    expect(await show(`${PATH}/${id}`)).toContain(`<option value="${other.id}">Other</option>`);
    await owner.follow(await sendAgain(id, { sure: 'answered', proxy_id: other.id }));
    expect(JSON.stringify(sent()[1]?.headers)).not.toContain('of-the-first');
  });

  test('shows why the vault refused it, with the record', async () => {
    const id = await forward();
    const { status } = await server.request('DELETE', `/proxies/${proxy.id}`, { key: tenant.api_key });
    expect(status).toBe(204);
    const gone = await sendAgain(id, { sure: 'answered' });
    expect([gone.status, textOf(gone.text).includes('It was not sent again.')]).toEqual([404, true]);
    await server.sql(`UPDATE forwards SET state = 'begun', claimed_until = now() + interval '1 minute' WHERE id = $1`, [
      id,
    ]);
    const page = textOf(await show(`${PATH}/${id}`));
    expect(page).toContain('It is under way.');
    expect((await sendAgain(id, { sure: 'begun' })).status).toBe(409);
    await server.sql(`UPDATE forwards SET state = 'answered', claimed_until = NULL WHERE id = $1`, [id]);
  });
});

describe.skipIf(!isInstalled('chromium'))('in a browser', () => {
  let chromium: Chromium;
  beforeAll(async () => {
    chromium = await launchChromium();
  });
  afterAll(() => chromium?.close());

  test('a lost request is found on Home, read and sent again', async () => {
    const id = await forward(reset);
    const person = await openPerson(chromium, server.base_url);
    const { page } = person;
    const { browser } = await join(server, { tenant });
    const cookies = [...browser.cookies].map(([name, value]) => ({ name, value, url: server.base_url }));
    await page.context().addCookies(cookies);
    await page.goto('/console/home');
    await page.getByRole('link', { name: 'A request', exact: true }).click();
    await page.getByRole('row').nth(1).getByRole('link').first().click();
    await page.getByRole('link', { name: 'Show the request and the response' }).click();
    await page.getByText(`{{ ${card} | json: '$.number' }}`).waitFor();
    const form = page.locator('#again');
    await form.getByRole('button', { name: 'Send again' }).click();
    // The browser asks for the tick.
    expect(sent()).toHaveLength(1);
    await form.getByRole('checkbox').check();
    await form.getByRole('button', { name: 'Send again' }).click();
    await page.getByText('this is the record of the new request').waitFor();
    expect(sent()).toHaveLength(2);
    expect(sent()[1]?.body.toString()).toContain(NUMBER);
    await page.getByRole('link', { name: id }).click();
    await page.waitForURL(`${server.base_url}${PATH}/${id}`);
    expect(person.faults).toEqual([]);
    await person.close();
  });
});
