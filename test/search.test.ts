// POST /tokens/search over HTTP: each field, their combinations, and what no search finds.
import { beforeAll, describe, expect, test } from 'vitest';
import { type SharedServer, type TestTenant, useServer } from './support/server.ts';

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});

const create = async (tenant: TestTenant, body: unknown) => {
  const answer = await server.request('POST', '/tokens', { key: tenant.api_key, json: body });
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const ask = (tenant: TestTenant, body: unknown) =>
  server.request('POST', '/tokens/search', { key: tenant.api_key, json: body });

const search = async (tenant: TestTenant, query: string, page: object = {}) => {
  const answer = await ask(tenant, { query, ...page });
  expect(answer.status, `${query}: ${answer.text}`).toBe(200);
  return answer.body;
};

/** The ids that a query finds, in order of their names; the total is theirs. */
const found = async (tenant: TestTenant, query: string): Promise<string[]> => {
  const page = await search(tenant, query);
  expect(page.pagination.total_items, query).toBe(page.data.length);
  return page.data.map(({ id }: { id: string }) => id).toSorted();
};

const patch = async (tenant: TestTenant, id: string, body: unknown) => {
  const headers = { 'content-type': 'application/merge-patch+json' };
  const options = { key: tenant.api_key, headers, body: JSON.stringify(body) };
  const answer = await server.request('PATCH', `/tokens/${id}`, options);
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
};

/** Runs with the server's clock put forward. */
const later = async <T>(ms: number, work: () => Promise<T>): Promise<T> => {
  server.clock.offsetMs += ms;
  try {
    return await work();
  } finally {
    server.clock.offsetMs -= ms;
  }
};

const DAY_MS = 86_400_000;

const REVEALING = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:search'] }];

describe('each field finds what it names', () => {
  let tenant: TestTenant;
  /** Sees values by a rule that reveals: terms about values find what their caller sees. */
  let reader: TestTenant;
  let editor: TestTenant;
  let card: Record<string, any>;
  let ssn: Record<string, any>;
  let late: Record<string, any>;

  beforeAll(async () => {
    tenant = await server.newTenant();
    editor = await server.newKey(tenant, { permissions: ['token:create', 'token:update', 'token:read'] });
    reader = await server.newKey(tenant, { rules: REVEALING });
    card = await create(tenant, {
      id: 'a-card',
      type: 'card',
      data: { number: '4242424242424242' },
      containers: ['/pci/high/'],
      search_indexes: ['{{ data.number }}', '{{ data.number | last4 }}'],
      metadata: { order: 'A 1', 'customer.name': 'Zoë' },
    });
    ssn = await create(tenant, { id: 'b-ssn', type: 'social_security_number', data: '123-45-6789' });
    late = await later(3 * DAY_MS, () => create(editor, { id: 'c late', data: 'x', containers: ['/pci_x/low/'] }));
    await create(tenant, { id: 'd-plain', data: 'x', containers: ['/pcixx/low/'] });
    card = await later(2 * DAY_MS, () => patch(editor, 'a-card', { metadata: { seen: 'yes' } }));
  });

  /** Puts in what is known only once the tokens are there. */
  const fill = (query: string): string => {
    const values: Record<string, string> = {
      creator: tenant.application_id,
      editor: editor.application_id,
      EDITOR: editor.application_id.toUpperCase(),
      fingerprint: card['fingerprint'],
      'fingerprint in lower case': card['fingerprint'].toLowerCase(),
      early: ssn['created_at'],
      late: late['created_at'],
      'late day': late['created_at'].slice(0, 10),
      'day of change': card['modified_at'].slice(0, 10),
    };
    return query.replace(/<([^>]+)>/g, (_, name: string) => values[name] as string);
  };

  test.each<[query: string, ids: string[]]>([
    ['id:a-card', ['a-card']],
    ['id:"c late"', ['c late']],
    ['id:A-CARD', []],
    ['type:card', ['a-card']],
    ['type:bank', []],
    ['type:no_such_type', []],
    ['fingerprint:<fingerprint>', ['a-card']],
    ['fingerprint:<fingerprint in lower case>', []],
    ['created_by:<creator>', ['a-card', 'b-ssn', 'd-plain']],
    ['created_by:<EDITOR>', ['c late']],
    ['modified_by:<editor>', ['a-card']],
    ['created_at:<late day>', ['c late']],
    ['created_at:"<late>"', ['c late']],
    ['created_at:[<late> TO *]', ['c late']],
    ['created_at:{<late> TO *}', []],
    ['created_at:{* TO <late>}', ['a-card', 'b-ssn', 'd-plain']],
    ['created_at:[<early> TO <late>} AND id:b-ssn', ['b-ssn']],
    ['created_at:[2001-01-01 TO 2001-12-31]', []],
    ['created_at:[2020-01-01 TO 2001-12-31]', []],
    ['modified_at:<day of change>', ['a-card']],
    ['modified_at:[* TO *]', ['a-card']],
    ['modified_at:[* TO 2001-01-01]', []],
    ['container:/pci/high/', ['a-card']],
    ['container:/PCI/High/', ['a-card']],
    ['container:/pci/', []],
    ['container:/pci/*', ['a-card']],
    ['container:"/pci*"', ['a-card', 'c late', 'd-plain']],
    ['container:/*', ['a-card', 'b-ssn', 'c late', 'd-plain']],
    ['metadata.order:"a 1"', ['a-card']],
    ['metadata.customer.name:ZOË', ['a-card']],
    ['metadata.order:A', []],
    ['metadata.ORDER:"A 1"', []],
    ['metadata.seen:yes', ['a-card']],
    ['data:4242424242424242', ['a-card']],
    ['data:4242', ['a-card']],
    ['data:424242', []],
    ['data:yes', []],
    ['metadata.data:4242', []],
  ])('%s finds %j', async (query, ids) => {
    expect(await found(reader, fill(query))).toEqual(ids);
  });

  test('a social security number is found whole, by its digits and its last four, by default', async () => {
    for (const value of ['123-45-6789', '123456789', '6789'])
      expect(await found(reader, `data:${value}`)).toEqual(['b-ssn']);
    for (const value of ['123', '45', '12345', '678']) expect(await found(reader, `data:${value}`)).toEqual([]);
  });

  test('an underscore in a container prefix is an underscore, not any character', async () => {
    expect(await found(reader, 'container:/pci_*')).toEqual(['c late']);
    expect(await found(reader, 'container:/pci_x/*')).toEqual(['c late']);
    expect(await found(reader, 'container:/p_i/*')).toEqual([]);
  });

  test.each<[query: string, ids: string[]]>([
    ['type:card OR type:social_security_number', ['a-card', 'b-ssn']],
    ['type:token AND container:/pcixx/*', ['d-plain']],
    ['type:card AND type:token', []],
    ['NOT type:token', ['a-card', 'b-ssn']],
    ['-type:token', ['a-card', 'b-ssn']],
    ['!type:token AND NOT data:6789', ['a-card']],
    ['type:token OR type:card AND data:4242', ['a-card', 'c late', 'd-plain']],
    ['(type:token OR type:card) AND data:4242', ['a-card']],
    ['NOT (type:token OR data:4242)', ['b-ssn']],
    ['NOT NOT type:card', ['a-card']],
    // What is not there is not equal to anything.
    ['NOT data:4242', ['b-ssn', 'c late', 'd-plain']],
    ['NOT metadata.order:"a 1"', ['b-ssn', 'c late', 'd-plain']],
    ['NOT modified_by:<editor>', ['b-ssn', 'c late', 'd-plain']],
    ['NOT modified_at:[* TO *]', ['b-ssn', 'c late', 'd-plain']],
    ['NOT modified_at:[2001-01-01 TO *]', ['b-ssn', 'c late', 'd-plain']],
    ['NOT (data:4242 AND type:token)', ['a-card', 'b-ssn', 'c late', 'd-plain']],
    ['NOT (data:none OR modified_at:[* TO 2001-01-01])', ['a-card', 'b-ssn', 'c late', 'd-plain']],
  ])('%s finds %j', async (query, ids) => {
    expect(await found(reader, fill(query))).toEqual(ids);
  });

  test('what is found comes newest first, as a list shows it, in pages', async () => {
    const page = await search(tenant, 'container:/*', { size: 2 });
    expect(page.data[0].id).toBe('c late');
    expect(page.data[0].data).toBe('x');
    expect(page.pagination).toMatchObject({ total_items: 4, page_number: 1, page_size: 2, total_pages: 2 });
    const second = await search(tenant, 'container:/*', { size: 2, page: 2 });
    const next = await search(tenant, 'container:/*', { size: 2, start: page.pagination.next });
    expect(next.data).toEqual(second.data);
    expect(second.pagination.next).toBeUndefined();
    const [shown] = (await search(tenant, 'id:a-card')).data;
    expect(shown.data).toEqual({ number: 'XXXXXXXXXXXX4242' });
  });
});

test('a search never finds tokens of another tenant', async () => {
  const tenant = await server.newTenant();
  const neighbour = await server.newTenant();
  const theirs = await create(neighbour, {
    type: 'social_security_number',
    data: '123-45-6789',
    containers: ['/theirs/'],
    metadata: { order: '1' },
  });
  const mine = await create(tenant, { data: 'x', containers: ['/mine/'] });
  const reader = await server.newKey(tenant, { rules: REVEALING });
  for (const query of [
    `id:${theirs.id}`,
    `fingerprint:${theirs.fingerprint}`,
    `created_by:${neighbour.application_id}`,
    'type:social_security_number',
    'data:123456789',
    'metadata.order:1',
    'container:/theirs/*',
    `NOT id:${mine.id}`,
    `id:none OR id:${theirs.id}`,
  ])
    expect(await found(reader, query), query).toEqual([]);
  expect(await found(reader, 'NOT id:none')).toEqual([mine.id]);
});

describe('permission and rules', () => {
  test('token:search suffices, and shows as much as its own rules say', async () => {
    const tenant = await server.newTenant();
    const number = '4242424242424242';
    for (const container of ['/open/', '/closed/', '/other/'])
      await create(tenant, {
        id: `in${container.replaceAll('/', '-')}`,
        type: 'card_number',
        data: number,
        containers: [container],
      });
    const rule = { permissions: ['token:search'] };
    const searcher = await server.newKey(tenant, {
      rules: [
        { ...rule, priority: 1, container: '/open/', transform: 'reveal' },
        { ...rule, priority: 2, container: '/closed/', transform: 'redact' },
        { priority: 3, container: '/', transform: 'reveal', permissions: ['token:read'] },
      ],
    });
    const page = await search(searcher, 'type:card_number');
    expect(page.pagination.total_items).toBe(2);
    const shown = Object.fromEntries(page.data.map((token: { id: string; data?: string }) => [token.id, token.data]));
    expect(shown).toEqual({ 'in-open-': number, 'in-closed-': undefined });
    expect(await found(searcher, 'NOT container:/open/')).toEqual(['in-closed-']);
    expect(await found(searcher, 'container:/other/ OR id:in-other-')).toEqual([]);
    const plain = await server.newKey(tenant, { permissions: ['token:search'] });
    const [masked] = (await search(plain, 'id:in-other-')).data;
    expect(masked.data).toBe('XXXXXXXXXXXX4242');
  });

  test('the question and each token that is found are reads in the log, without the value', async () => {
    const tenant = await server.newTenant();
    const { id } = await create(tenant, { type: 'social_security_number', data: '987-65-4321' });
    await create(tenant, { data: 'x' });
    const reader = await server.newKey(tenant, { rules: REVEALING });
    await search(reader, 'data:987654321');
    const log = await server.sql(
      `SELECT entity_type, entity_ids, actor_id, message FROM audit_log WHERE tenant_id = $1 AND operation = 'read' ORDER BY id`,
      [tenant.tenant_id],
    );
    const actor_id = reader.application_id;
    expect(log).toEqual([
      { entity_type: 'tenant', entity_ids: [tenant.tenant_id], actor_id, message: 'Tokens searched by value' },
      { entity_type: 'social_security_number', entity_ids: [id], actor_id, message: 'Token revealed' },
    ]);
    expect(server.logLines.join('')).not.toContain('987654321');
  });
});

describe('a bad search is a 400 that names the field and repeats nothing', () => {
  const secret = '4242424242424242';

  test.each([
    ['an empty query', ''],
    ['only spaces', '   '],
    ['no field', secret],
    ['an unknown field', `number:${secret}`],
    ['no value', 'id:'],
    ['a space before the value', `id: ${secret}`],
    ['no operator', `id:${secret} id:${secret}`],
    ['an operator in lower case', `id:${secret} and id:a`],
    ['a dangling AND', `id:${secret} AND`],
    ['an open parenthesis', `(id:${secret}`],
    ['a closed parenthesis', `id:${secret})`],
    ['an open quotation mark', `data:"${secret}`],
    ['a wildcard in a value', `data:${secret}*`],
    ['a fuzzy match', `data:${secret}~2`],
    ['a bad container', `container:${secret}`],
    ['a wildcard inside a container', `container:/a*/${secret}/`],
    ['a percent sign in a prefix', `container:/%${secret}*`],
    ['an id of a caller that is none', `created_by:${secret}`],
    ['a bad date', `created_at:${secret}`],
    ['a range that is not closed', `created_at:[2020-01-01 TO ${secret}`],
    ['a range of what is no date', `data:[${secret} TO *]`],
    ['metadata without a key', `metadata.:${secret}`],
    ['NUL', `data:"${secret}\u0000"`],
    ['half a surrogate pair', `data:"${secret}\ud800"`],
    ['too many parentheses', `${'('.repeat(11)}id:${secret}${')'.repeat(11)}`],
    ['201 characters', `id:${secret}${'a'.repeat(201 - 3 - secret.length)}`],
    ['no text', 4242424242424242],
  ])('%s', async (_, query) => {
    const answer = await ask(server.tenant, { query });
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual(['query']);
    expect(answer.body.errors.query[0]).toMatch(/^must /);
    expect(answer.text).not.toContain(secret);
    expect(server.logLines.join('')).not.toContain(secret);
  });

  test.each([
    ['page', 0],
    ['page', -1],
    ['page', 1.5],
    ['page', '1'],
    ['page', 1_000_000_001],
    ['size', 0],
    ['size', 101],
    ['size', 2.5],
    ['size', '20'],
    ['start', ''],
    ['start', 1],
    ['start', 'nonsense'],
    ['start', 'a'.repeat(4001)],
  ])('%s %j', async (field, value) => {
    const answer = await ask(server.tenant, { query: 'type:card', [field]: value });
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([field]);
    expect(answer.body.errors[field][0]).toMatch(/^must be /);
  });

  test.each([[['type:card']], ['type:card'], [null]])('a body that is no object: %j', async (body) => {
    const answer = await ask(server.tenant, body);
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual(['body']);
  });

  test('200 characters are a query, and a page far beyond the end is empty', async () => {
    expect(await found(server.tenant, `id:${'a'.repeat(197)}`)).toEqual([]);
    const page = await search(server.tenant, 'type:card', { page: 1_000_000_000 });
    expect(page).toEqual({
      pagination: { total_items: 0, page_number: 1_000_000_000, page_size: 20, total_pages: 0 },
      data: [],
    });
  });
});

test('what a query holds is a value, never a part of the statement', async () => {
  const tenant = await server.newTenant();
  const id = `x' OR '1'='1`;
  await create(tenant, { data: 'x', id: 'x OR 1' });
  expect(await found(tenant, `id:"${id}"`)).toEqual([]);
  expect(await found(tenant, `metadata.k:"'); DROP TABLE tokens; --"`)).toEqual([]);
  expect(await found(tenant, 'id:"$1"')).toEqual([]);
  expect(await found(tenant, 'id:"x OR 1"')).toEqual(['x OR 1']);
});
