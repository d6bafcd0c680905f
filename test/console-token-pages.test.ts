// The console's pages of tokens, as a member without scripts sees them: masked unless revealed on purpose, found, linked,
// ended, and never more than their tenant's.
import { beforeAll, describe, expect, test } from 'vitest';
import { LOG_LINE } from '../src/platform/db/log-partitions.ts';
import { type Browser, type SharedConsole, skeletonOf, textOf, useConsole } from './support/console.ts';
import type { TestTenant } from './support/server.ts';
import { withoutDrawn } from './support/text.ts';

let server: SharedConsole;
let browser: Browser;
beforeAll(async () => {
  server = await useConsole();
  browser = await server.signIn();
});

const PAGE_BYTES_MAX = 60 * 1024;

type Made = { id: string; fingerprint: string };

const create = async (json: object, { api_key: key }: TestTenant = server.tenant): Promise<Made> => {
  const answer = await server.request('POST', '/tokens', { json, key });
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const pathOf = (id: string): string => `/console/tokens/${encodeURIComponent(id)}`;

type Entry = { entity_id: string; operation: string; message: string; actor_id: string; actor_type: string };

const logOf = async (entity_id: string, { api_key: key }: TestTenant = server.tenant): Promise<Entry[]> =>
  (await server.request('GET', `/logs?${new URLSearchParams({ entity_id }).toString()}`, { key })).body.data;

/** Drawn digits are no values; nor are fingerprints, which a page shows whole and without their middle. */
const withoutFingerprints = (page: string, made: readonly Made[]): string =>
  made
    .flatMap(({ fingerprint }) => [fingerprint, `${fingerprint.slice(0, 11)}…${fingerprint.slice(-8)}`])
    .reduce((rest, each) => rest.replaceAll(each, ''), withoutDrawn(page));

const idsOn = (page: string): string[] =>
  [...page.matchAll(/<a class="mono" href="\/console\/tokens\/([^"]+)"/g)].map(([, id = '']) => decodeURIComponent(id));

const cvc = '9173';
const values: { request: object; values: string[]; masked: string | undefined }[] = [
  { request: { data: 'Ada Lovelace, born 1815' }, values: ['Lovelace, born'], masked: undefined },
  { request: { data: { iban: 'GB33BUKB20201555555555' } }, values: ['GB33BUKB'], masked: undefined },
  {
    request: { data: 'Grace Brewster Hopper', mask: '{{ data | reveal_last: 6 }}' },
    values: ['Grace Brewster'],
    masked: 'XXXXXXXXXXXXXXXHopper',
  },
  {
    request: {
      type: 'card',
      data: { number: '4242424242424242', expiration_month: 4, expiration_year: 2030, cvc },
    },
    values: ['4242424242424242', cvc],
    masked: 'XXXXXXXXXXXX4242 04/2030',
  },
  {
    request: { type: 'bank', data: { routing_number: '021000021', account_number: '9876512345' } },
    values: ['9876512345'],
    masked: 'routing_number 021000021, account_number XXXXXX2345',
  },
  {
    request: { type: 'card_number', data: '5555555555554444' },
    values: ['5555555555554444'],
    masked: 'XXXXXXXXXXXX4444',
  },
  { request: { type: 'us_bank_account_number', data: '7512367890' }, values: ['7512367890'], masked: 'XXXXXX7890' },
  { request: { type: 'us_bank_routing_number', data: '011401533' }, values: ['011401533'], masked: 'XXXXX1533' },
  { request: { type: 'social_security_number', data: '123-45-6789' }, values: ['123-45'], masked: 'XXX-XX-6789' },
  { request: { type: 'employer_id_number', data: '12-3456789' }, values: ['12-345'], masked: 'XX-XXX6789' },
];

describe('a value', () => {
  let tokens: ((typeof values)[number] & Made)[];
  let tenant: TestTenant;
  let member: Browser;
  beforeAll(async () => {
    tenant = await server.newTenant();
    member = await server.signIn({ tenant });
    tokens = [];
    for (const each of values) tokens.push({ ...each, ...(await create(each.request, tenant)) });
    const [parent, ...children] = tokens;
    for (const { id } of children)
      await server.request('POST', `/tokens/${parent?.id}/children/${id}`, { key: tenant.api_key });
  });

  test('is on no page unasked, of no type, with a mask or without', async () => {
    const pages = [
      await member.get('/console/tokens'),
      await member.get('/console/tokens?type=card'),
      await member.post('/console/tokens/search', { query: 'created_at:[2020-01-01 TO *]' }),
      await member.get('/console/logs'),
    ];
    for (const { id } of tokens) pages.push(await member.get(pathOf(id)));
    for (const { status, text } of pages) {
      expect(status, text).toBe(200);
      const said = withoutFingerprints(text, tokens);
      for (const value of tokens.flatMap((token) => token.values)) expect(said).not.toContain(value);
      expect(said).not.toContain('cvc');
    }
    // All of them were there.
    for (const page of [pages[0], pages[2]])
      expect(idsOn(page?.text ?? '').toSorted()).toEqual(tokens.map(({ id }) => id).toSorted());
  });

  test('shows its mask in the list and on its own page; without one it is hidden', async () => {
    const { text } = await member.get('/console/tokens');
    const rows = textOf(text).split('\n');
    for (const { id, masked } of tokens) {
      const row = rows.find((line) => line.startsWith(id));
      expect(row).toContain(masked ?? 'hidden');
      const page = textOf((await member.get(pathOf(id))).text);
      if (masked === undefined) expect(page).toContain('Hidden, because the token has no mask');
      else expect(page).toContain(masked.split(' ').at(-1)?.split('/').at(-1));
    }
  });

  test('is revealed by a deliberate act, on a page that nobody keeps', async () => {
    for (const { id, values: shown } of tokens) {
      await member.get(pathOf(id));
      const { status, text, headers } = await member.post(`${pathOf(id)}/reveal`);
      expect(status, text).toBe(200);
      expect(headers.get('cache-control')).toBe('no-store');
      for (const value of shown) expect(withoutDrawn(textOf(text))).toContain(value);
    }
  });

  test('is revealed under the name of the member: the log tells it from a masked look', async () => {
    const { id } = await create({ data: 'x' }, tenant);
    await member.get(pathOf(id));
    await member.post(`${pathOf(id)}/reveal`);
    const [revealed, looked] = await logOf(id, tenant);
    const action = { operation: 'read', actor_type: 'user', actor_id: member.user_id, entity_id: id };
    expect(revealed).toMatchObject({ ...action, message: 'Token revealed' });
    expect(looked).toMatchObject({ ...action, message: 'Token retrieved' });
    expect(textOf((await member.get(pathOf(id))).text)).toContain('Revealed to Ada Lovelace');
  });

  test('is revealed for a reason where the tenant asks for one, and the log keeps it', async () => {
    const asking = await server.newTenant();
    const { id } = await create({ data: 'shown for a reason' }, asking);
    const who = await server.signIn({ tenant: asking });
    const set = (reveal_reason: string) =>
      server.request('PUT', '/tenants/self', {
        key: asking.api_key,
        json: { name: 'Asking', settings: { reveal_reason } },
      });
    expect((await set('sometimes')).status).toBe(400);
    expect((await who.get(pathOf(id))).text).not.toContain('name="reason"');
    expect((await set('required')).status).toBe(200);
    expect((await who.get(pathOf(id))).text).toContain('name="reason"');
    for (const reason of [
      '',
      ' ',
      'x'.repeat(201),
      'two\nlines',
      'card 4242424242424242',
      'card 4242 4242 4242 4242',
      'card 4242-4242 - 4242-4242',
      'card ４２４２４２４２４２４２４２４２',
    ]) {
      const { status, text } = await who.post(`${pathOf(id)}/reveal`, { reason });
      expect([reason, status]).toEqual([reason, 422]);
      expect(text).toContain('reason-problem');
      expect(text).not.toContain('shown for a reason');
    }
    const given = 'Ticket 4711 of 2026-11-28 14:30: <b>asked</b> by the customer';
    const revealed = await who.post(`${pathOf(id)}/reveal`, { reason: ` ${given} ` });
    expect([revealed.status, revealed.text.includes('shown for a reason')]).toEqual([200, true]);

    const key = asking.api_key;
    const { body } = await server.request('GET', `/logs?disclosure=revealed`, { key });
    expect(body.data).toMatchObject([{ message: 'Token revealed', reason: given, actor_id: who.user_id }]);
    const timeline = await server.request('GET', `/tokens/${id}/timeline`, { key });
    expect(timeline.body.entries.map((entry: { reason?: string }) => entry.reason)).toContain(given);
    const csv = await server.request('GET', '/logs', { key, headers: { accept: 'text/csv' } });
    expect(csv.text).toContain(`,${given},`);
    for (const page of ['/console/logs', pathOf(id)]) {
      const { text } = await who.get(page);
      expect(text).toContain('&lt;b&gt;asked&lt;/b&gt;');
      expect(withoutDrawn(text)).not.toContain('4242');
    }
    // A key does not take away what members are asked for.
    expect((await set('off')).status).toBe(403);
    const rows = await server.sql(
      `SELECT ${LOG_LINE} FROM audit_log AS l WHERE tenant_id = $1 AND reason IS NOT NULL`,
      [asking.tenant_id],
    );
    expect(rows.map(({ line }) => server.ctx.db.logMacs.isIntact(line))).toEqual([true]);
    expect(server.ctx.db.logMacs.isIntact(rows[0]?.line.replace('4711', '4712'))).toBe(false);
  });

  test('is not revealed without the CSRF token, by another one, or from another site', async () => {
    const { id } = await create({ data: 'do not show this' }, tenant);
    const other = await server.signIn({ tenant });
    const [, ofOther = ''] = /name="csrf" value="([^"]+)"/.exec((await other.get('/console/tokens')).text) ?? [];
    await member.get(pathOf(id));
    for (const csrf of ['', 'x', ofOther]) {
      const { status, text } = await member.post(`${pathOf(id)}/reveal`, { csrf });
      expect(status).toBe(403);
      expect(text).not.toContain('do not show this');
    }
    const crossSite = await member.post(`${pathOf(id)}/reveal`, {}, { 'sec-fetch-site': 'cross-site' });
    expect(crossSite.status).toBe(403);
    expect((await logOf(id, tenant)).map(({ message }) => message)).not.toContain('Token revealed');
    expect((await member.post(`${pathOf(id)}/reveal`)).text).toContain('do not show this');
    expect((await logOf(id, tenant))[0]?.message).toBe('Token revealed');
  });

  test('is not revealed by a link: the address leads back to the token', async () => {
    const { id } = await create({ data: 'x' }, tenant);
    for (const action of ['reveal', 'link', 'unlink', 'delete']) {
      const { status, headers } = await member.get(`${pathOf(id)}/${action}`);
      expect([status, headers.get('location')]).toEqual([303, pathOf(id)]);
    }
    expect((await logOf(id, tenant)).map(({ message }) => message)).toEqual(['Token created']);
  });
});

describe('the list', () => {
  test('goes on by a cursor, newest first, each token once, whatever comes in between', async () => {
    const tenant = await server.newTenant();
    const member = await server.signIn({ tenant });
    const made: string[] = [];
    for (let index = 0; index < 43; index += 1) {
      server.clock.offsetMs += 1;
      made.unshift((await create({ data: index }, tenant)).id);
    }
    const seen: string[][] = [];
    let path = '/console/tokens';
    for (;;) {
      const { status, text } = await member.get(path);
      expect(status, text).toBe(200);
      expect(text.includes('>First page</a>')).toBe(seen.length > 0);
      seen.push(idsOn(text));
      const [, next] = /rel="next" href="([^"]+)"/.exec(text) ?? [];
      if (next === undefined) break;
      path = textOf(next);
      server.clock.offsetMs += 1;
      await create({ data: 'meanwhile' }, tenant);
    }
    expect(seen.map(({ length }) => length)).toEqual([20, 20, 3]);
    expect(seen.flat()).toEqual(made);
  });

  test('is filtered by type, by id and by metadata, together and alone', async () => {
    const tenant = await server.newTenant();
    const member = await server.signIn({ tenant });
    const order = { metadata: { order: 'A & B = "4711"' } };
    const card = await create({ type: 'card', data: { number: '4242424242424242' }, ...order }, tenant);
    const note = await create({ data: 'x', ...order }, tenant);
    const plain = await create({ data: 'y', id: 'chosen "id"' }, tenant);
    const find = async (query: Record<string, string>) => {
      const { status, text } = await member.get(`/console/tokens?${new URLSearchParams(query).toString()}`);
      expect(status, text).toBe(200);
      // What was asked for stays in its field.
      for (const name of ['id', 'key', 'value'])
        expect(textOf(new RegExp(`name="${name}"[^>]* value="([^"]*)"`).exec(text)?.[1] ?? '')).toBe(query[name] ?? '');
      return idsOn(text).toSorted();
    };
    const entry = { key: 'order', value: 'a & b = "4711"' };
    expect(await find({})).toEqual([card.id, note.id, plain.id].toSorted());
    expect(await find({ type: 'card' })).toEqual([card.id]);
    expect(await find({ id: plain.id })).toEqual([plain.id]);
    expect(await find(entry)).toEqual([card.id, note.id].toSorted());
    expect(await find({ ...entry, type: 'token' })).toEqual([note.id]);
    expect(await find({ ...entry, id: plain.id })).toEqual([]);
    expect(textOf((await member.get('/console/tokens?type=bank')).text)).toContain('No tokens match.');
  });

  test('says what is wrong with a filter beside it, and of a cursor that is none', async () => {
    const id = 'x'.repeat(401);
    const cases: [string, string, string][] = [
      [`id=${id}`, 'name="id"', 'must be the id of a token'],
      ['type=nothing', 'name="type"', 'must be one of token'],
      ['value=x', 'name="key"', 'must be given with a value'],
    ];
    for (const [query, field, sentence] of cases) {
      const { status, text } = await browser.get(`/console/tokens?${query}`);
      expect(status).toBe(400);
      const beside = text.slice(text.indexOf(field), text.indexOf('</label>', text.indexOf(field)));
      expect(beside).toContain('aria-invalid="true"');
      expect(beside).toContain(sentence);
    }
    const cursor = await browser.get('/console/tokens?start=none');
    expect(cursor.status).toBe(400);
    expect(textOf(cursor.text)).toContain('Start again with the first page.');
  });

  test('says where tokens come from while there are none', async () => {
    const member = await server.signIn({ tenant: await server.newTenant() });
    expect(textOf((await member.get('/console/tokens')).text)).toContain('No tokens yet.');
  });

  test('shows fewer where its tokens are too large for one answer', async () => {
    const tenant = await server.newTenant();
    const member = await server.signIn({ tenant });
    const data = 'x'.repeat(1_000_000);
    for (let index = 0; index < 18; index += 1) await create({ data }, tenant);
    expect((await server.request('GET', '/tokens?size=20', { key: tenant.api_key })).status).toBe(413);
    const first = await member.get('/console/tokens');
    expect(first.status, first.text).toBe(200);
    expect(idsOn(first.text)).toHaveLength(4);
    expect(first.text).toContain('rel="next"');
  });
});

describe('a search', () => {
  const search = (fields: Record<string, string>, by = browser) => by.post('/console/tokens/search', fields);

  test('finds by the query language, page by page, and keeps what was looked for out of addresses', async () => {
    const tenant = await server.newTenant();
    const member = await server.signIn({ tenant });
    const made: string[] = [];
    for (let index = 0; index < 23; index += 1)
      made.push((await create({ type: 'social_security_number', data: '123-45-6789' }, tenant)).id);
    await create({ data: 'another' }, tenant);
    const query = 'data:6789 AND NOT type:token';
    const first = await search({ query }, member);
    expect(first.status, first.text).toBe(200);
    expect(textOf(first.text)).toContain('23 found');
    const [, start = ''] = /name="start" value="([^"]+)"/.exec(first.text) ?? [];
    const second = await search({ query, start }, member);
    expect([...idsOn(first.text), ...idsOn(second.text)].toSorted()).toEqual(made.toSorted());
    const addresses = [first, second].flatMap(({ text }) => text.match(/(?:href|action)="[^"]*"/g) ?? []);
    for (const address of addresses) expect(withoutDrawn(address)).not.toContain('6789');
    const again = await member.get('/console/tokens/search');
    expect([again.status, again.headers.get('location')]).toEqual([303, '/console/tokens']);
  });

  test('takes an id or last four digits that are pasted alone', async () => {
    const tenant = await server.newTenant();
    const member = await server.signIn({ tenant });
    const { id } = await create({ type: 'social_security_number', data: '123-45-6789' }, tenant);
    const other = await create({ data: 'another', id: 'order-4711 of March' }, tenant);
    for (const query of [id, ` ${id} `, '6789']) {
      const { status, text } = await search({ query }, member);
      expect([status, idsOn(text)], query).toEqual([200, [id]]);
      expect(text).toContain(`value="${query}"`);
    }
    for (const query of ['0000', other.id.slice(0, 10)]) {
      const { status, text } = await search({ query }, member);
      expect([status, textOf(text).includes('No tokens match.')], query).toEqual([200, true]);
    }
  });

  test('has examples that are queries', async () => {
    const { text } = await browser.get('/console/tokens');
    const examples = [...text.matchAll(/name="query" value="([^"]+)">/g)].map(([, query = '']) => textOf(query));
    expect(examples.length).toBeGreaterThanOrEqual(4);
    for (const query of examples) expect((await search({ query })).status, query).toBe(200);
  });

  test('says what is wrong with a query beside it', async () => {
    const { status, text } = await search({ query: 'colour:"red"' });
    expect(status).toBe(400);
    expect(text).toContain('value="colour:&quot;red&quot;"');
    expect(text).toMatch(/aria-describedby="query-problem"/);
    expect(text).toMatch(/id="query-problem">It must name one of the fields id, type/);
  });

  test('needs the CSRF token', async () => {
    expect((await search({ query: 'type:card', csrf: 'x' })).status).toBe(403);
  });
});

describe('a token of its own page', () => {
  test('shows its record, with who made it by name', async () => {
    const member = await server.signIn();
    const { id, fingerprint } = await create({
      type: 'card',
      data: { number: '4242424242424242' },
      metadata: { order: '4711' },
      search_indexes: ['{{ data.number | last4 }}'],
      expires_at: '2030-01-01T00:00:00Z',
    });
    const page = textOf((await member.get(pathOf(id))).text);
    for (const shown of [id, '/pci/high/', fingerprint, '{{ data.number }}', '{{ data.number | last4 }}'])
      expect(page).toContain(shown);
    for (const shown of ['4711', '2030-01-01 00:00', 'by First application']) expect(page).toContain(shown);
    expect(page).toContain('Ada Lovelace');
  });

  test('is linked to children, and a link is taken away again', async () => {
    const parent = await create({ data: 'parent' });
    const child = await create({ data: 'child', id: `child of "${parent.id}"` });
    await browser.get(pathOf(parent.id));
    const linked = await browser.follow(await browser.post(`${pathOf(parent.id)}/link`, { child_id: ` ${child.id} ` }));
    expect(textOf(linked.text)).toContain('The child was linked.');
    expect(idsOn(linked.text)).toEqual([child.id]);
    const children = () => server.request('GET', `/tokens/${parent.id}/children`);
    expect((await children()).body.data.map(({ id }: Made) => id)).toEqual([child.id]);
    const unlinked = await browser.follow(await browser.post(`${pathOf(parent.id)}/unlink`, { child_id: child.id }));
    expect(textOf(unlinked.text)).toContain('The child was unlinked.');
    expect(idsOn(unlinked.text)).toEqual([]);
    expect((await children()).body.data).toEqual([]);
    expect((await logOf(parent.id)).map(({ message, actor_type }) => `${actor_type}: ${message}`)).toContain(
      'user: Token association deleted',
    );
  });

  test('has pages of children', async () => {
    const parent = await create({ data: 'parent' });
    const made: string[] = [];
    for (let index = 0; index < 21; index += 1) {
      const { id } = await create({ data: index });
      await server.request('POST', `/tokens/${parent.id}/children/${id}`);
      made.push(id);
    }
    const first = (await browser.get(pathOf(parent.id))).text;
    const [, next = ''] = /rel="next" href="([^"]+)"/.exec(first) ?? [];
    const second = (await browser.get(textOf(next))).text;
    expect([...idsOn(first), ...idsOn(second)].toSorted()).toEqual(made.toSorted());
    expect(idsOn(second)).toHaveLength(1);
  });

  test('says what is wrong with a link beside its form', async () => {
    const parent = await create({ data: 'parent' });
    const child = await create({ data: 'child' });
    const foreign = await create({ data: 'x' }, await server.newTenant());
    await browser.get(pathOf(parent.id));
    await browser.post(`${pathOf(parent.id)}/link`, { child_id: child.id });
    const cases: [string, number, string][] = [
      [parent.id, 400, 'The child must not be the parent itself'],
      [child.id, 409, 'These tokens are associated already.'],
      ['"nobody"', 404, 'The token was not found.'],
      [foreign.id, 404, 'The token was not found.'],
    ];
    for (const [child_id, status, sentence] of cases) {
      const answer = await browser.post(`${pathOf(parent.id)}/link`, { child_id });
      expect(answer.status).toBe(status);
      const [, form = ''] = answer.text.split(`action="${pathOf(parent.id)}/link"`);
      const [shown = ''] = form.split('</form>');
      expect(shown).toContain(`id="child-problem">${sentence}`);
      expect(textOf(/name="child_id" value="([^"]*)"/.exec(shown)?.[1] ?? '')).toBe(child_id);
    }
  });

  test('is not reached by ids that would lead elsewhere', async () => {
    const parent = await create({ data: 'parent' });
    await browser.get(pathOf(parent.id));
    for (const child_id of ['..', '.', '', '../..', '%2e%2e', '.%2e'])
      for (const action of ['link', 'unlink']) await browser.post(`${pathOf(parent.id)}/${action}`, { child_id });
    expect((await server.request('GET', `/tokens/${parent.id}`)).status).toBe(200);
    expect((await logOf(parent.id)).map(({ operation }) => operation)).not.toContain('delete');
  });

  test('is deleted once that was said twice', async () => {
    const { id } = await create({ data: 'x' });
    await browser.get(pathOf(id));
    await browser.follow(await browser.post(`${pathOf(id)}/delete`));
    expect((await server.request('GET', `/tokens/${id}`)).status).toBe(200);
    expect((await browser.post(`${pathOf(id)}/delete`, { sure: 'yes', csrf: 'x' })).status).toBe(403);
    expect((await server.request('GET', `/tokens/${id}`)).status).toBe(200);
    const list = await browser.follow(await browser.post(`${pathOf(id)}/delete`, { sure: 'yes' }));
    expect(textOf(list.text)).toContain('The token was deleted.');
    expect((await server.request('GET', `/tokens/${id}`)).status).toBe(404);
    expect((await logOf(id))[0]).toMatchObject({ operation: 'delete', actor_type: 'user', actor_id: browser.user_id });
    for (const answer of [await browser.get(pathOf(id)), await browser.post(`${pathOf(id)}/delete`, { sure: 'yes' })])
      expect(answer.status).toBe(404);
  });
});

describe("another tenant's token", () => {
  const withoutTrace = (page: string) => page.replace(/<code>[^<]+<\/code>/, '');

  test('is the page of one that is not there, whatever is done to it', async () => {
    const owner = await server.newTenant();
    const { id } = await create({ data: 'not yours' }, owner);
    const own = await create({ data: 'own' });
    await browser.get('/console/tokens');
    const unknown = await browser.get('/console/tokens/5b5dd4a4-0000-4000-8000-000000000000');
    expect(unknown.status).toBe(404);
    const answers = [
      await browser.get(pathOf(id)),
      await browser.post(`${pathOf(id)}/reveal`),
      await browser.post(`${pathOf(id)}/link`, { child_id: own.id }),
      await browser.post(`${pathOf(id)}/delete`, { sure: 'yes' }),
    ];
    for (const { status, text } of answers) {
      expect(status).toBe(404);
      expect(withoutTrace(text)).toBe(withoutTrace(unknown.text));
    }
    await browser.post(`${pathOf(own.id)}/unlink`, { child_id: id });
    for (const { text } of [
      await browser.get('/console/tokens'),
      await browser.get(`/console/tokens?id=${id}`),
      await browser.post('/console/tokens/search', { query: `id:${id}` }),
    ])
      expect(idsOn(text)).not.toContain(id);
    expect((await logOf(id, owner)).map(({ operation }) => operation)).toEqual(['create']);
  });
});

describe('without a session', () => {
  test('every page leads to signing in and back, and no form does anything', async () => {
    const { id } = await create({ data: 'not shown' });
    const anonymous = server.anonymous();
    for (const path of ['/console/tokens?type=card&key=a', pathOf(id)]) {
      const { status, headers, text } = await anonymous.get(path);
      expect(status).toBe(303);
      expect(headers.get('location')).toBe(`/console/sign-in?${new URLSearchParams({ next: path }).toString()}`);
      expect(text).not.toContain(id);
    }
    for (const [path, fields] of [
      [`${pathOf(id)}/reveal`, {}],
      [`${pathOf(id)}/delete`, { sure: 'yes' }],
      ['/console/tokens/search', { query: 'type:token' }],
    ] as const) {
      const { status, headers, text } = await anonymous.post(path, fields);
      expect([status, headers.get('location')]).toEqual([303, '/console/sign-in']);
      expect(text).not.toContain('not shown');
    }
    expect((await logOf(id)).map(({ operation }) => operation)).toEqual(['create']);
    // An API key is no session.
    expect((await server.request('GET', pathOf(id))).status).toBe(303);
  });
});

describe('what callers wrote', () => {
  const markup = `</textarea></pre></title><script>alert("1")</script>'" onfocus='x' <!-- &amp; \u202e\u05e9\u05dc\u05d5\u05dd`;

  /** A tenant in which everything that can be written is written by somebody else. */
  const makePages = async (text: string, chosen: string) => {
    const tenant = await server.newTenant({ name: `Tenant ${text}` });
    const member = await server.signIn({ tenant });
    const parent = await create({ data: text, mask: text, id: chosen, metadata: { note: text } }, tenant);
    const child = await create(
      {
        data: { text },
        mask: { name: `${text} {{ data.text }}` },
        id: `${chosen}-2`,
        fingerprint_expression: `${text}{{ data }}`,
      },
      tenant,
    );
    await member.get(pathOf(parent.id));
    await member.post(`${pathOf(parent.id)}/link`, { child_id: child.id });
    const query = `metadata.note:"${text.replaceAll('"', String.raw`\"`)}"`;
    const pages = {
      list: await member.get('/console/tokens'),
      filtered: await member.get(
        `/console/tokens?${new URLSearchParams({ id: chosen, key: 'note', value: text }).toString()}`,
      ),
      found: await member.post('/console/tokens/search', { query }),
      wrong: await member.post('/console/tokens/search', { query: `x:${text}` }),
      parent: await member.get(pathOf(parent.id)),
      child: await member.get(pathOf(child.id)),
      notLinked: await member.post(`${pathOf(parent.id)}/link`, { child_id: `${text}-3` }),
      revealed: await member.post(`${pathOf(parent.id)}/reveal`),
    };
    return { pages, text, chosen };
  };

  test('stays text in every place that shows it', async () => {
    // An id cannot have the hidden characters that the other texts have.
    const hostile = await makePages(markup, `"it's" \u05e9\u05dc\u05d5\u05dd onfocus:'x' and more`);
    const plain = await makePages('plain', 'chosen by the caller, and long');
    const text = (name: keyof typeof hostile.pages) => textOf(hostile.pages[name].text);
    for (const name of Object.keys(plain.pages) as (keyof typeof plain.pages)[]) {
      expect(hostile.pages[name].status, name).toBe(plain.pages[name].status);
      expect(skeletonOf(hostile.pages[name].text), name).toEqual(skeletonOf(plain.pages[name].text));
      expect(text(name)).toContain(`Tenant ${markup}`);
    }
    for (const name of ['list', 'filtered', 'found', 'parent'] as const) expect(text(name)).toContain(markup);
    expect(text('parent')).toContain(`note${markup}`);
    for (const name of ['parent', 'child', 'revealed'] as const) expect(text(name)).toContain(hostile.chosen);
    expect(text('child')).toContain(`${markup}{{ data }}`);
    expect(text('revealed')).toContain(JSON.stringify(markup));
  });

  test('is cut where it is long: a page stays a page', async () => {
    const tenant = await server.newTenant();
    const member = await server.signIn({ tenant });
    const long = `<b>${'"<i>'.repeat(25_000)}`;
    const { id } = await create({ data: long, mask: long }, tenant);
    for (let index = 0; index < 19; index += 1) await create({ data: long, mask: { a: [long] } }, tenant);
    for (const path of ['/console/tokens', pathOf(id)]) {
      expect((await member.get(path)).text).not.toContain('<i>');
      expect(await member.weigh(path)).toBeLessThan(PAGE_BYTES_MAX);
    }
    expect(textOf((await member.get(pathOf(id))).text)).toContain(`it has ${long.length} characters`);
    // What is revealed is all of it.
    const revealed = await member.post(`${pathOf(id)}/reveal`);
    expect(textOf(revealed.text)).toContain(JSON.stringify(long));
    expect(revealed.text).not.toContain('<i>');
  });
});

test('a first visit transfers less than 60 KB', async () => {
  const tenant = await server.newTenant();
  const member = await server.signIn({ tenant });
  const metadata = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`key_${index}`, 'v'.repeat(100)]));
  const parent = await create({ data: 'x', metadata }, tenant);
  for (let index = 0; index < 20; index += 1) {
    const id = `order-${'long-'.repeat(10)}${index}`;
    await create({ type: 'bank', data: { routing_number: '021000021', account_number: `12345${index}` }, id }, tenant);
    await server.request('POST', `/tokens/${parent.id}/children/${id}`, { key: tenant.api_key });
  }
  for (const path of ['/console/tokens', pathOf(parent.id), '/console/logs'])
    expect(await member.weigh(path), path).toBeLessThan(PAGE_BYTES_MAX);
});

describe('where a value may go', () => {
  const boundOf = async (id: string) => (await server.request('GET', `/tokens/${id}`)).body.bound_to;

  test('is said in words, set by a form without JSON, and removed', async () => {
    const { id } = await create({ data: 'bound by a form' });
    await browser.get(pathOf(id));
    const fields = { hosts: 'b.example.com\r\na.example.com\r\n', body: 'yes', max_uses: '2', until: '2090-01-01' };
    const saved = await browser.post(`${pathOf(id)}/bound`, fields);
    expect([saved.status, saved.headers.get('location')]).toEqual([303, `${pathOf(id)}?done=bound`]);
    expect(await boundOf(id)).toEqual({
      hosts: ['a.example.com', 'b.example.com'],
      places: ['body'],
      max_uses: 2,
      until: '2090-01-01T00:00:00.000Z',
    });
    const page = await browser.get(pathOf(id));
    expect(textOf(page.text)).toContain('only to a.example.com, b.example.com');
    expect(textOf(page.text)).toContain('0 of 2 uses are counted');
    const revealed = await browser.post(`${pathOf(id)}/reveal`);
    expect(revealed.text).not.toContain('bound by a form');
    await browser.get(pathOf(id));
    expect((await browser.post(`${pathOf(id)}/bound/remove`)).status).toBe(303);
    expect(await boundOf(id)).toBeUndefined();
  });

  test('has an allowance, which stays when the form is saved again', async () => {
    const { id } = await create({ data: 'x' });
    const json = { name: 'Payments', destination_url: 'https://api.example.com' };
    const proxy = (await server.request('POST', '/proxies', { json })).body;
    const fields = {
      proxies: proxy.id,
      allowance_max_amount: '2000',
      allowance_currency: 'USD',
      allowance_max_total: '5000',
      allowance_merchant_id: 'acme',
    };
    await browser.get(pathOf(id));
    expect((await browser.post(`${pathOf(id)}/bound`, fields)).status).toBe(303);
    const allowance = { max_amount: 2000, currency: 'usd', max_total: 5000, merchant_id: 'acme' };
    expect(await boundOf(id)).toEqual({ proxies: [proxy.id], allowance });
    const page = await browser.get(pathOf(id));
    expect(textOf(page.text)).toContain('at most 2000 usd a request, in minor units');
    expect(textOf(page.text)).toContain('0 of 5000 usd are charged');
    for (const value of ['2000', 'usd', '5000', 'acme']) expect(page.text).toContain(`value="${value}"`);
    const again = { ...fields, max_uses: '3', allowance_currency: 'us' };
    const refused = await browser.post(`${pathOf(id)}/bound`, again);
    expect(textOf(refused.text)).toContain('It must be the three letters of a currency');
    await browser.get(pathOf(id));
    expect((await browser.post(`${pathOf(id)}/bound`, { ...again, allowance_currency: 'usd' })).status).toBe(303);
    expect(await boundOf(id)).toEqual({ proxies: [proxy.id], allowance, max_uses: 3 });
  });

  test('has its errors beside the fields, and keeps what was typed', async () => {
    const { id } = await create({ data: 'x' });
    await browser.get(pathOf(id));
    const refused = await browser.post(`${pathOf(id)}/bound`, { hosts: 'https://a.example.com', max_uses: 'many' });
    expect(refused.status).toBe(400);
    expect(textOf(refused.text)).toContain('It must be a host name such as api.example.com');
    expect(textOf(refused.text)).toContain('It must be an integer from 1 to 1000');
    expect(refused.text).toContain('https://a.example.com</textarea>');
    expect(await boundOf(id)).toBeUndefined();
  });
});
