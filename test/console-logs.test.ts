// The console's page of the log: who did what to what, by name, found by what GET /logs is found by.
import { beforeAll, describe, expect, test } from 'vitest';
import { type Browser, type SharedConsole, skeletonOf, textOf, useConsole } from './support/console.ts';
import type { TestTenant } from './support/server.ts';

let server: SharedConsole;
let tenant: TestTenant;
let browser: Browser;
beforeAll(async () => {
  server = await useConsole();
  tenant = await server.newTenant();
  browser = await server.signIn({ tenant });
});

const create = async (json: object, { api_key: key }: TestTenant = tenant): Promise<string> => {
  // Entries of one millisecond have no order of time.
  server.clock.offsetMs += 1;
  const answer = await server.request('POST', '/tokens', { json, key });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};

const pathOf = (query: Record<string, string>): string => `/console/logs?${new URLSearchParams(query).toString()}`;

const show = async (query: Record<string, string>, by = browser): Promise<string> => {
  const { status, text } = await by.get(pathOf(query));
  expect(status, text).toBe(200);
  return text;
};

/** The rows of the page, each as its cells. */
const rowsOf = (page: string): string[][] =>
  [...page.matchAll(/<tr>(<td.*?)<\/tr>/gs)].map(([, row = '']) =>
    row.split('</td>').map((cell) => textOf(cell).replace(/\s+/g, ' ').trim()),
  );

/** The ids of the tokens that rows are about. */
const tokensOn = (page: string): string[] =>
  [...page.matchAll(/href="\/console\/tokens\/([^"]+)"/g)].map(([, id = '']) => decodeURIComponent(id));

const countEntries = async ({ tenant_id }: TestTenant): Promise<number> => {
  const [row] = await server.sql('SELECT count(*) FROM audit_log WHERE tenant_id = $1', [tenant_id]);
  return Number(row.count);
};

describe('the log', () => {
  test('says who did what to what, by name, newest first', async () => {
    const own = await server.newTenant();
    const member = await server.signIn({ tenant: own });
    const id = await create({ type: 'card', data: { number: '4242424242424242' } }, own);
    server.clock.offsetMs += 1;
    await member.get(`/console/tokens/${id}`);
    const page = await show({ entity_id: id }, member);
    const rows = rowsOf(page).map(([, ...cells]) => cells.slice(0, 4));
    expect(rows[0]).toEqual(['Ada Lovelace user', 'read', `Card${id}`, 'Token retrieved']);
    expect(rows[1]).toEqual(['First application application', 'create', `Card${id}`, 'Token created']);
    expect(rows).toHaveLength(2);
    expect(tokensOn(page)).toEqual([id, id]);
    const [made] = rowsOf(await show({ entity_id: own.tenant_id }, member));
    expect(made?.slice(1, 3)).toEqual(['Operator', 'create']);
    expect(page).toMatch(/<time datetime="\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z">/);
  });

  test('falls back to the id of whoever has no name any more', async () => {
    const own = await server.newTenant();
    const member = await server.signIn({ tenant: own });
    const key = await server.newKey(own, { permissions: ['token:create'] });
    const id = await create({ data: 'x' }, key);
    const { application_id } = key;
    const gone = await server.request('DELETE', `/applications/${application_id}`, { key: own.api_key });
    expect(gone.status).toBe(204);
    const [row] = rowsOf(await show({ entity_id: id }, member));
    expect(row?.[1]).toBe(`${application_id} application`);
  });

  test('grows by the reading of it alone when it is read again', async () => {
    const own = await server.newTenant();
    const member = await server.signIn({ tenant: own });
    await create({ data: 'x' }, own);
    const first = await show({}, member);
    expect(first).toContain('First application');
    const before = await countEntries(own);
    expect(await show({}, member)).toContain('First application');
    expect(await countEntries(own)).toBe(before + 1);
    expect((await show({}, member)).match(/Logs retrieved/)).toBeNull();
    expect(await show({ entity_type: 'log' }, member)).toContain('Logs retrieved');
  });

  test('goes on by a cursor, each entry once, whatever comes in between', async () => {
    const own = await server.newTenant();
    const member = await server.signIn({ tenant: own });
    const made: string[] = [];
    for (let index = 0; index < 41; index += 1) made.unshift(await create({ data: index }, own));
    const seen: string[][] = [];
    let path = pathOf({ entity_type: 'token' });
    for (;;) {
      const { status, text } = await member.get(path);
      expect(status, text).toBe(200);
      expect(text.includes('>First page</a>')).toBe(seen.length > 0);
      seen.push(tokensOn(text));
      const [, next] = /rel="next" href="([^"]+)"/.exec(text) ?? [];
      if (next === undefined) break;
      path = textOf(next);
      // The filter goes along.
      expect(path).toContain('entity_type=token&');
      await create({ data: 'meanwhile' }, own);
    }
    expect(seen.map(({ length }) => length)).toEqual([20, 20, 1]);
    expect(seen.flat()).toEqual(made);
  });
});

describe('the filter', () => {
  test('asks for a kind of entity, an entity, and both', async () => {
    const card = await create({ type: 'card', data: { number: '4242424242424242' } });
    const note = await create({ data: 'x', id: `"quoted" & ${'long '.repeat(10)}id`.replace(' & ', ' and ') });
    expect(tokensOn(await show({ entity_type: 'card' }))).toEqual([card]);
    const ofNote = await show({ entity_id: note });
    expect(tokensOn(ofNote)).toEqual([note]);
    expect(textOf(/name="entity_id"[^>]* value="([^"]*)"/.exec(ofNote)?.[1] ?? '')).toBe(note);
    expect(tokensOn(await show({ entity_id: card, entity_type: 'card' }))).toEqual([card]);
    const none = await show({ entity_id: note, entity_type: 'card' });
    expect(rowsOf(none)).toEqual([]);
    expect(textOf(none)).toContain('No entries match.');
    expect(none).toContain('<option value="card" selected>Card</option>');
  });

  test('asks for an actor, an operation and an outcome, and shows them', async () => {
    const own = await server.newTenant();
    const member = await server.signIn({ tenant: own });
    const weak = await server.newKey(own, { permissions: ['token:create'] });
    const id = await create({ type: 'card', data: { number: '4242424242424242' } }, weak);
    expect((await server.request('DELETE', `/tokens/${id}`, { key: weak.api_key })).status).toBe(403);
    const actor_id = weak.application_id;
    const refused = await show({ actor_id, outcome: 'refused' }, member);
    expect(rowsOf(refused)).toHaveLength(1);
    expect(rowsOf(refused)[0]?.slice(2, 7)).toEqual([
      'delete',
      expect.stringContaining(id.slice(0, 11)),
      'Refused: token:delete refused',
      '',
      '',
    ]);
    expect(refused).toContain('<option value="refused" selected>refused</option>');
    const read = await show({ operation: 'create', actor_id }, member);
    expect(tokensOn(read)).toEqual([id]);
    await member.get(`/console/tokens/${id}`);
    expect(rowsOf(await show({ entity_id: id, operation: 'read' }, member))[0]?.[5]).toBe('masked');
  });

  test('offers every kind of entity that there is', async () => {
    const { body } = await server.request('GET', '/logs/entity-types');
    const page = await show({});
    const [select = ''] = /<select name="entity_type".*?<\/select>/s.exec(page) ?? [];
    const options = [...select.matchAll(/<option value="([a-z_]+)">([^<]+)<\/option>/g)];
    expect(options.map(([, value, display_name]) => ({ display_name, value }))).toEqual(body);
  });

  test('asks for a time in UTC as the inputs spell it, its end left out', async () => {
    const own = await server.newTenant();
    const now = server.clock.offsetMs;
    const at = async (text: string) => {
      server.clock.offsetMs = Date.parse(text) - Date.now();
      return create({ data: text }, own);
    };
    await at('2026-03-01T11:59:58Z');
    const first = await at('2026-03-01T12:00:30Z');
    const second = await at('2026-03-01T12:59:58Z');
    await at('2026-03-01T13:00:30Z');
    server.clock.offsetMs = now;
    const member = await server.signIn({ tenant: own });
    const query = { entity_type: 'token', start_date: '2026-03-01T12:00', end_date: '2026-03-01T13:00:00' };
    const page = await show(query, member);
    expect(tokensOn(page)).toEqual([second, first]);
    expect(page).toContain('type="datetime-local" value="2026-03-01T12:00"');
    expect(textOf(page)).toContain('From, in UTC');
  });

  test('says what is wrong beside the field, and of a cursor that is none', async () => {
    const cases: [Record<string, string>, string, string][] = [
      [{ entity_type: 'x-1' }, 'entity_type', 'It must be letters and underscores'],
      [{ entity_id: 'x'.repeat(401) }, 'entity_id', ''],
      [{ start_date: 'yesterday' }, 'start_date', 'It must be a date such as'],
      [{ end_date: '2026-02-30T00:00' }, 'end_date', 'It must be a date such as'],
      [{ start_date: '2026-02-02', end_date: '2026-02-01' }, 'start_date', 'It must not be after end_date'],
    ];
    for (const [query, name, sentence] of cases) {
      const { status, text } = await browser.get(pathOf(query));
      expect(status, name).toBe(400);
      expect(text).toContain(`aria-invalid="true" aria-describedby="${name}-problem"`);
      expect(text).toContain(`id="${name}-problem">${sentence}`);
      expect(rowsOf(text)).toEqual([]);
    }
    const cursor = await browser.get(pathOf({ start: 'none' }));
    expect(cursor.status).toBe(400);
    expect(textOf(cursor.text)).toContain('Start again with the first page.');
  });

  test('takes each parameter once', async () => {
    const { status } = await browser.get('/console/logs?entity_id=a&entity_id=b');
    expect(status).toBe(400);
  });
});

describe('the export', () => {
  const lines = (text: string): string[] => text.split('\r\n').filter((line) => line !== '');

  test('is a file with all entries of the filter, each cell a text for spreadsheets', async () => {
    const own = await server.newTenant();
    const member = await server.signIn({ tenant: own });
    const id = await create({ type: 'token', data: 'x', id: '@SUM(1)' }, own);
    for (let count = 0; count < 30; count += 1) await create({ type: 'token', data: 'x' }, own);
    const page = await show({ entity_type: 'token' }, member);
    const [, path = ''] = /href="(\/console\/logs\/export[^"]*)"/.exec(page) ?? [];
    const { status, headers, text } = await member.get(path.replaceAll('&amp;', '&'));
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/csv; charset=utf-8');
    expect(headers.get('content-disposition')).toMatch(/^attachment; filename="log-\d{4}-\d\d-\d\d\.csv"$/);
    expect(lines(text)).toHaveLength(32);
    expect(text).toContain(`'${id}`);
    expect(text).not.toContain(`,${id}`);
    const rows = await server.sql('SELECT message FROM audit_log WHERE actor_id = $1', [member.user_id]);
    expect(rows.filter(({ message }) => message === 'Logs exported')).toHaveLength(1);
  });

  test('of a filter that is wrong leads to the page that says so', async () => {
    const { status, headers } = await browser.get('/console/logs/export?entity_type=x-1');
    expect([status, headers.get('location')]).toEqual([303, '/console/logs?entity_type=x-1']);
    expect((await browser.get('/console/logs/export?outcome=a&outcome=b')).status).toBe(400);
  });

  test('has nothing of another tenant, and nothing for a role without the log', async () => {
    const anonymous = await server.signIn({ tenant: await server.newTenant() });
    expect((await anonymous.get('/console/logs/export')).text).not.toContain(tenant.tenant_id);
    const support = await server.signIn({ tenant });
    const path = `/tenants/self/members/${support.member_id}`;
    expect((await server.request('PUT', path, { json: { role: 'SUPPORT' }, key: tenant.api_key })).status).toBe(200);
    expect((await support.get('/console/logs/export')).status).toBe(403);
  });
});

test("another tenant's entries, and the names of who made them, are on no page", async () => {
  const other = await server.newTenant();
  const id = await create({ data: 'x' }, other);
  const key = await server.newKey(other, { permissions: ['token:create'] });
  const queries: Record<string, string>[] = [{}, { entity_id: id }, { entity_id: key.application_id }];
  for (const query of queries) {
    const page = await show(query);
    expect(tokensOn(page)).not.toContain(id);
    expect(rowsOf(page).flat().join()).not.toContain(key.application_id.slice(0, 11));
  }
});

test('without a session it leads to signing in, and back to what was asked for', async () => {
  const path = pathOf({ entity_type: 'card', start_date: '2026-03-01T12:00' });
  const { status, headers } = await server.anonymous().get(path);
  expect(status).toBe(303);
  expect(headers.get('location')).toBe(`/console/sign-in?${new URLSearchParams({ next: path }).toString()}`);
});

test('what callers wrote stays text', async () => {
  const markup = `</select></title><script>alert("1")</script>'" onfocus='x' \u202e\u05e9\u05dc\u05d5\u05dd`;
  const makePage = async (text: string, chosen: string) => {
    const own = await server.newTenant({ name: `Tenant ${text}` });
    const application = await server.request('POST', '/applications', {
      json: { name: `Application ${text}`, permissions: ['token:create'] },
      key: own.api_key,
    });
    expect(application.status, application.text).toBe(201);
    const member = await server.signIn({ tenant: own });
    const id = await create({ data: 'x', id: chosen }, { ...own, api_key: application.body.key });
    return { found: await show({ entity_id: id }, member), none: await show({ entity_id: text }, member) };
  };
  const plain = await makePage('plain', 'chosen by the caller, and long');
  // An id cannot have the hidden characters that the other texts have.
  const hostile = await makePage(markup, `"it's" \u05e9\u05dc\u05d5\u05dd onfocus:'x' and more`);
  for (const name of ['found', 'none'] as const) {
    expect(skeletonOf(hostile[name])).toEqual(skeletonOf(plain[name]));
    expect(textOf(hostile[name])).toContain(`Tenant ${markup}`);
  }
  expect(textOf(hostile.found)).toContain(`Application ${markup}`);
  expect(textOf(hostile.found)).toContain(`"it's" \u05e9`);
  expect(textOf(/name="entity_id"[^>]* value="([^"]*)"/.exec(hostile.none)?.[1] ?? '')).toBe(markup);
});
