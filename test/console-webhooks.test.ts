// The pages of webhooks in the console: a secret is shown once, and each form does what it says.
import { beforeAll, expect, test } from 'vitest';
import { type Browser, type SharedConsole, useConsole } from './support/console.ts';
import type { TestTenant } from './support/server.ts';

let server: SharedConsole;
let tenant: TestTenant;
let owner: Browser;
beforeAll(async () => {
  server = await useConsole();
  tenant = await server.newTenant();
  owner = await server.signIn({ tenant });
});

const typed = { name: 'Orders', url: 'https://hooks.example.com/a', 'event.token.created': 'yes', container: '' };

const make = async (name: string): Promise<{ id: string; text: string }> => {
  await owner.get('/console/webhooks/new');
  const { status, text } = await owner.post('/console/webhooks/new', { ...typed, name, form_id: crypto.randomUUID() });
  expect(status, text).toBe(200);
  const [, id = ''] = /href="\/console\/webhooks\/([0-9a-f-]{36})"/.exec(text) ?? [];
  return { id, text };
};

test('a webhook is made, and its secret shown once', async () => {
  const { id, text } = await make('Once');
  expect(text).toMatch(/<code data-copy>whsec_[A-Za-z0-9+/]{43}=<\/code>/);
  const page = await owner.get(`/console/webhooks/${id}`);
  expect([page.status, page.text.includes('whsec_')]).toEqual([200, false]);
  expect((await owner.get('/console/webhooks')).text).toContain('Once');
});

test('a wrong form says what is wrong and keeps what was typed', async () => {
  await owner.get('/console/webhooks/new');
  const wrong = { ...typed, url: 'https://127.0.0.1/', form_id: crypto.randomUUID() };
  const { status, text } = await owner.post('/console/webhooks/new', wrong);
  expect(status).toBe(400);
  expect(text).toContain('The webhook was not created.');
  expect(text).toContain('value="https://127.0.0.1/"');
});

test('a webhook gets the events that are ticked, none is refused, and ticks are kept', async () => {
  await owner.get('/console/webhooks/new');
  const send = (more: Record<string, string>) =>
    owner.post('/console/webhooks/new', { ...typed, name: 'Several', ...more, form_id: crypto.randomUUID() });
  const made = await send({ 'event.token.deleted': 'yes', 'event.alarm.raised': 'yes' });
  const [, id = ''] = /href="\/console\/webhooks\/([0-9a-f-]{36})"/.exec(made.text) ?? [];
  const { body } = await server.request('GET', `/webhooks/${id}`, { key: tenant.api_key });
  expect(body.events.toSorted()).toEqual(['alarm.raised', 'token.created', 'token.deleted']);
  await owner.get('/console/webhooks/new');
  const none = await send({ 'event.token.created': '' });
  expect(none.status).toBe(400);
  expect(none.text).toMatch(/must be a list of types of events/);
  await owner.get('/console/webhooks/new');
  const wrong = await send({ url: 'http://a.example.com/' });
  expect(wrong.text).toMatch(/name="event\.token\.created" value="yes" checked/);
  await owner.get('/console/webhooks/new');
  const all = await send({ 'event.*': 'yes' });
  const [, of = ''] = /href="\/console\/webhooks\/([0-9a-f-]{36})"/.exec(all.text) ?? [];
  expect((await server.request('GET', `/webhooks/${of}`, { key: tenant.api_key })).body.events).toEqual(['*']);
});

test('a test event, a pause, a replay, another secret and the end', async () => {
  const { id } = await make('Forms');
  const path = `/console/webhooks/${id}`;
  const act = async (form: string, fields: Record<string, string> = {}) => {
    await owner.get(path);
    return owner.post(`${path}/${form}`, fields);
  };
  expect((await act('ping')).headers.get('location')).toBe(`${path}?done=pinged`);
  expect((await owner.get(path)).text).toContain('webhook.ping');
  const [delivery] = await server.sql(
    `UPDATE webhook_deliveries SET state = 'dead' WHERE webhook_id = $1 RETURNING id`,
    [id],
  );
  expect((await act('replay', { delivery_id: delivery.id })).headers.get('location')).toBe(`${path}?done=replayed`);
  expect((await act('replay', { delivery_id: '../x' })).status).toBe(404);
  expect((await act('pause')).status).toBe(303);
  expect((await act('ping')).status).toBe(409);
  expect((await act('resume')).status).toBe(303);
  expect((await act('secret', { form_id: crypto.randomUUID() })).text).toMatch(/whsec_/);
  expect((await owner.get(path)).text).toContain('Replaced secret');
  expect((await act('delete')).headers.get('location')).toBe('/console/webhooks?done=deleted');
  expect((await owner.get(path)).status).toBe(404);
});

test('its URL, events and container are changed by a form, and nothing else is', async () => {
  const { id } = await make('Before');
  const path = `/console/webhooks/${id}`;
  const read = async () => (await server.request('GET', `/webhooks/${id}`, { key: tenant.api_key })).body;
  const before = await read();
  const page = await owner.get(`${path}/edit`);
  const [, seen = ''] = /name="seen" value="([^"]+)"/.exec(page.text) ?? [];
  expect(page.text).toMatch(/name="event\.token\.created" value="yes" checked/);
  const fields = {
    seen,
    name: 'After',
    url: 'https://hooks.example.com/b',
    'event.token.deleted': 'yes',
    container: '/pci/',
  };
  const wrong = await owner.post(`${path}/edit`, { ...fields, url: 'http://hooks.example.com/b' });
  expect(wrong.status).toBe(400);
  expect(wrong.text).toContain('The webhook was not saved.');
  expect(wrong.text).toContain('value="http://hooks.example.com/b"');
  await owner.get(path);
  const saved = await owner.post(`${path}/edit`, fields);
  expect(saved.headers.get('location')).toBe(`${path}?done=saved`);
  const { modified_at, modified_by, ...after } = await read();
  expect([typeof modified_at, typeof modified_by]).toEqual(['string', 'string']);
  expect(after).toEqual({
    ...before,
    name: 'After',
    url: 'https://hooks.example.com/b',
    events: ['token.deleted'],
    container: '/pci/',
  });
  await owner.get(path);
  const outdated = await owner.post(`${path}/edit`, { ...fields, name: 'Late' });
  expect([outdated.status, outdated.text.includes('was changed since the page was opened')]).toEqual([409, true]);
  expect((await read()).name).toBe('After');
});

test('another tenant and a role without the permission see nothing', async () => {
  const { id } = await make('Ours');
  const other = await server.signIn({ tenant: await server.newTenant() });
  for (const page of ['', '/edit']) expect((await other.get(`/console/webhooks/${id}${page}`)).status).toBe(404);
});
