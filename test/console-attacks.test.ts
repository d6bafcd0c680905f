// Attacks on every page and form of the console, by the list of routes. What a new page forgets fails here.
import { beforeAll, describe, expect, test } from 'vitest';
import { type Browser, type SharedConsole, skeletonOf, useConsole } from './support/console.ts';
import { consoleRoutes, furnish, type Furnished, NO_ID, pathOf } from './support/console-pages.ts';
import { cookieHeader, join, type Joined, signIn } from './support/people.ts';
import type { Answer, RequestOptions, TestTenant } from './support/server.ts';

/** Ends attributes, elements, comments, scripts and texts of other languages. */
const HOSTILE = `'"><img src=x onerror=alert(1)></textarea></title><script>alert(2)</script><!--`;
const FORM_TYPE = 'application/x-www-form-urlencoded';

let server: SharedConsole;
/** A tenant with plain texts, and one whose records have hostile ones. */
let plain: { tenant: TestTenant; ids: Furnished; member: Browser };
let hostile: typeof plain;
/** Of the hostile tenant, with raw access to the cookies. */
let joined: Joined;
let csrf: string;
let forms: string[];
let pages: string[];

beforeAll(async () => {
  server = await useConsole();
  const make = async (text: string): Promise<typeof plain> => {
    const tenant = await server.newTenant({ name: text });
    const ids = await furnish(server, tenant, text);
    return { tenant, ids, member: await server.signIn({ tenant }) };
  };
  plain = await make('Plain');
  hostile = await make(HOSTILE);
  joined = await join(server, { tenant: hostile.tenant });
  csrf = await joined.browser.csrf();
  const routes = consoleRoutes(server);
  forms = routes.flatMap(({ method, url }) => (method === 'POST' ? [url] : []));
  pages = routes.flatMap(({ method, url }) => (method === 'GET' ? [url] : []));
  expect([forms.length > 55, pages.length > 70]).toEqual([true, true]);
});

const csrfIn = ({ text }: Answer): string => /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? '';

/** What looking around, signing in and time write. */
const WRITTEN_BY_ALL = [
  'attempts|audit_log|begun_runs|daily_budgets|daily_tokens|erasures|idempotency_keys|key_uses|log_\\w+|mail_outbox|members_seen',
  'request_rates|runs|sessions|token_counts|usage_hours|webhook_deliveries',
].join('|');

/** A digest of all that a tenant has. */
const stateOf = async ({ tenant_id }: TestTenant): Promise<unknown> => {
  const tables = await server.sql(
    `SELECT c.relname AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
     WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
       AND c.relname !~ '^(?:${WRITTEN_BY_ALL})$' ORDER BY c.relname`,
  );
  const digests = tables.map(
    ({ name }) =>
      `'${name}', (SELECT md5(string_agg(row, '' ORDER BY row)) FROM
        (SELECT (to_jsonb(t) - 'last_used_at')::text AS row FROM ${name} t WHERE tenant_id = $1) AS rows)`,
  );
  const [{ state }] = await server.sql(`SELECT jsonb_build_object(${digests.join()}) AS state`, [tenant_id]);
  return state;
};

/** Tags of a page that texts have made: none of ours has these. */
const injectedIn = (text: string): string[] =>
  skeletonOf(text).filter((each) => /\son\w+|^<img(?! src alt)|^<script(?! type src)/i.test(each));

const expectGuarded = ({ headers }: Answer, place: string): void => {
  expect(headers.get('content-security-policy'), place).toMatch(/^default-src 'none';.*frame-ancestors 'none'$/);
  expect(headers.get('x-frame-options'), place).toBe('DENY');
  expect(headers.get('cache-control'), place).toBe('no-store');
  expect(headers.get('x-content-type-options'), place).toBe('nosniff');
  expect(headers.get('referrer-policy'), place).toBe('no-referrer');
};

/** A request as the member of the hostile tenant sends it. */
const send = (method: string, path: string, more: Pick<RequestOptions, 'headers' | 'body'> = {}) => {
  const headers = { ...cookieHeader(joined.browser.cookies), 'sec-fetch-site': 'same-origin', ...more.headers };
  return server.request(method, path, { ...more, key: null, headers });
};

const sendForm = (url: string, body: string | Buffer<ArrayBuffer>): Promise<Answer> =>
  send('POST', pathOf(url, hostile.ids), { headers: { 'content-type': FORM_TYPE }, body });

/** Where sessions begin there is none yet. */
const isOfSession = (url: string): boolean => !url.startsWith('/console/sign-in');

describe('stored script', () => {
  test('would be found', () => {
    expect(injectedIn(`<p title="a"><img src=x onerror=alert(1)></p><script>x</script>`)).toHaveLength(2);
    expect(injectedIn(`<p title="&lt;img onerror=&quot;">&lt;script&gt;</p>`)).toEqual([]);
  });

  test('is text on every page: the page of a hostile record has the tags of one of a plain record', async () => {
    let shown = 0;
    for (const url of pages) {
      const [one, other] = await Promise.all([plain, hostile].map(({ member, ids }) => member.get(pathOf(url, ids))));
      expect([url, other?.status]).toEqual([url, one?.status]);
      if (!String(other?.headers.get('content-type')).startsWith('text/html')) continue;
      const known = new Set(skeletonOf(one?.text ?? ''));
      expect([url, skeletonOf(other?.text ?? '').filter((tag) => !known.has(tag))]).toEqual([url, []]);
      if (other?.text.includes('onerror=alert(1)')) shown += 1;
    }
    expect(shown).toBeGreaterThan(25);
  });

  test('is text in a URL: in each parameter that a page reads', async () => {
    const names = [
      'q',
      'name',
      'query',
      'start',
      'page',
      'children',
      'done',
      'line',
      'from',
      'type',
      'id',
      'key',
      'to',
    ];
    const filters = [
      'outcome',
      'kind',
      'resource_id',
      'start_date',
      'entity_type',
      'trace_id',
      'permission',
      'by',
      'range',
    ];
    const all = [...names, ...filters, 'version', 'live', 'application_id', 'next'];
    const look = async (path: string): Promise<void> => {
      const { status, text } = await plain.member.get(path);
      expect([path, status < 500, injectedIn(text)]).toEqual([path, true, []]);
    };
    const queryOf = (given: readonly string[]) =>
      new URLSearchParams(given.map((name): [string, string] => [name, HOSTILE]));
    for (const url of pages) {
      await look(`${pathOf(url, plain.ids)}?${queryOf(all)}`);
      // A list may stop at the first parameter that is wrong.
      if (!url.includes(':')) for (const name of all) await look(`${url.replace('*', 'x')}?${queryOf([name])}`);
    }
  });
});

/** The names of all fields that pages have, but long lists of boxes. */
const fieldNames = async (): Promise<string[]> => {
  const names = new Set<string>();
  for (const url of pages) {
    const { text } = await hostile.member.get(pathOf(url, hostile.ids));
    for (const [, name = ''] of text.matchAll(/<(?:input|select|textarea|button)[^>]* name="([^"]+)"/g))
      names.add(name);
  }
  names.delete('csrf');
  return [...names].filter((name) => !/^(?:permission|event)\.|\d/.test(name));
};

describe('a form', () => {
  test.each<[string, () => Promise<string>]>([
    ['of another session of the member', async () => (await signIn(server, joined.email)).csrf()],
    ['of another member of the tenant', async () => csrfIn(await hostile.member.get('/console/account'))],
    ['of a member of another tenant', async () => csrfIn(await plain.member.get('/console/account'))],
    ['that ends too soon', async () => csrf.slice(0, -1)],
    ['that is doubled', async () => csrf + csrf],
  ])('with the CSRF token %s does nothing', async (_, token) => {
    const before = await stateOf(hostile.tenant);
    const body = new URLSearchParams({ csrf: await token(), sure: 'yes', number: '1', name: 'x' }).toString();
    for (const url of forms.filter(isOfSession)) {
      const answer = await sendForm(url, body);
      expect([url, answer.status]).toEqual([url, 403]);
      expectGuarded(answer, url);
    }
    expect(await stateOf(hostile.tenant)).toEqual(before);
  });

  test.each([
    ['its token twice', (token: string) => `csrf=${token}&csrf=${token}`],
    ['bytes that are no UTF-8', (token: string) => `csrf=${token}&name=x\u00ff`],
    ['401 fields', (token: string) => `csrf=${token}${'&a=b'.repeat(400)}`],
  ])('with %s is refused', async (_, bodyOf) => {
    const before = await stateOf(hostile.tenant);
    const body = Buffer.from(bodyOf(csrf), 'latin1');
    for (const url of forms.filter(isOfSession)) {
      const answer = await sendForm(url, body);
      expect([url, answer.status]).toEqual([url, 400]);
      expectGuarded(answer, url);
    }
    expect(await stateOf(hostile.tenant)).toEqual(before);
  });

  test.each([
    ['application/json', '{"csrf":"x"}'],
    ['text/plain', 'csrf=x'],
    ['multipart/form-data; boundary=x', '--x\r\nContent-Disposition: form-data; name="csrf"\r\n\r\nx\r\n--x--'],
    ['application/x-www-form-urlencoded-x', 'csrf=x'],
    ['image/png', 'csrf=x'],
  ])('as %s is refused', async (type, body) => {
    for (const url of forms) {
      const answer = await send('POST', pathOf(url, hostile.ids), { headers: { 'content-type': type }, body });
      expect([url, answer.status]).toEqual([url, 415]);
      expectGuarded(answer, url);
    }
  });

  test('larger than a body may be is refused, whatever it is for', async () => {
    const body = `csrf=${csrf}&name=${'x'.repeat(server.ctx.config.bodyBytesMax)}`;
    for (const url of forms.filter((_, index) => index % 12 === 0)) {
      const answer = await sendForm(url, body);
      expect([url, answer.status]).toEqual([url, 413]);
      expectGuarded(answer, url);
    }
  });
});

describe('a method that a page does not have', () => {
  test.each(['PUT', 'PATCH', 'DELETE'])('%s is refused on every path, and names those that it has', async (method) => {
    for (const url of new Set([...pages, ...forms])) {
      const { status, headers } = await send(method, pathOf(url, hostile.ids));
      // What is no page has no methods.
      const refused = url === '/console/*' ? [404, undefined] : [405, false];
      expect([url, status, headers.get('allow')?.includes(method)]).toEqual([url, ...refused]);
    }
  });

  test('POST of a page is refused, and a header or field does not make another of it', async () => {
    const before = await stateOf(hostile.tenant);
    const override = { 'content-type': FORM_TYPE, 'x-http-method-override': 'DELETE', 'x-method-override': 'DELETE' };
    const body = new URLSearchParams({ csrf, _method: 'DELETE' }).toString();
    for (const url of pages.filter((each) => !forms.includes(each) && each !== '/console/*')) {
      const { status } = await send('POST', pathOf(url, hostile.ids), { headers: override, body });
      // 415 where no form is known beside the page.
      expect([url, [405, 415].includes(status)]).toEqual([url, true]);
    }
    for (const url of pages) {
      const answer = await send('GET', pathOf(url, hostile.ids), { headers: { 'x-http-method-override': 'DELETE' } });
      expect([url, answer.status < 500]).toEqual([url, true]);
    }
    expect(await stateOf(hostile.tenant)).toEqual(before);
  });

  test('HEAD of a page has the headers of GET and no body', async () => {
    for (const url of pages.filter((each) => !each.includes('export'))) {
      const answer = await send('HEAD', pathOf(url, hostile.ids));
      expect([url, answer.text, answer.status < 500]).toEqual([url, '', true]);
      expectGuarded(answer, url);
    }
  });
});

describe('a member of another tenant', () => {
  test('sees nothing of a record by its id on any page', async () => {
    for (const url of pages.filter((each) => /:(?:id|key_id|number)\b/.test(each))) {
      const { status, text } = await plain.member.get(pathOf(url, hostile.ids));
      expect([url, [303, 404].includes(status), text.includes('onerror')]).toEqual([url, true, false]);
    }
  });

  test('changes nothing of a record by any form', async () => {
    const before = await stateOf(hostile.tenant);
    await plain.member.get('/console/account');
    const fields = { sure: 'yes', number: '1', name: 'x', role: 'AUDITOR', child_id: hostile.ids.tokens, do: 'save' };
    for (const url of forms.filter((each) => each.includes(':id'))) {
      const { status, text } = await plain.member.post(pathOf(url, hostile.ids), fields);
      // 400 if the form itself is not whole, for any role.
      expect([url, [303, 400, 404].includes(status), text.includes('onerror')]).toEqual([url, true, false]);
    }
    expect(await stateOf(hostile.tenant)).toEqual(before);
  });
});

test.each(['SUPPORT', 'AUDITOR'])('%s changes nothing by any form of the console', async (role) => {
  const { tenant, ids } = hostile;
  const member = await server.signIn({ tenant });
  const path = `/tenants/self/members/${member.member_id}`;
  expect((await server.request('PUT', path, { key: tenant.api_key, json: { role } })).status).toBe(200);
  const before = await stateOf(tenant);
  await member.get('/console/account');
  const fields = {
    sure: 'yes',
    number: '1',
    name: 'x',
    role: 'ADMIN',
    email: 'new@example.com',
    child_id: ids.tokens,
    do: 'deploy',
    code: 'module.exports = () => ({});',
    job: 'read',
    destination_url: 'https://example.com',
    url: 'https://hooks.example.com/b',
    'event.token.created': 'yes',
    typed: HOSTILE,
    container: '/pci/',
  };
  // What is their own: their account and their session.
  const others = forms.filter((url) => !/^\/console\/(?:account|password|sign-|tenant|second-factor|sso)/.test(url));
  for (const url of others) {
    const { status } = await member.post(pathOf(url, ids), fields);
    expect([url, status < 500]).toEqual([url, true]);
  }
  expect(await stateOf(tenant)).toEqual(before);
});

describe('where a page leads', () => {
  const targets = [
    'https://evil.example',
    '//evil.example',
    '///evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    '/console/..//evil.example',
    '/console/../../\\evil.example',
    '/console/%0d%0aLocation:%20https://evil.example/../../..//evil.example',
    '/console\r\nSet-Cookie: a=b',
    '/console\t//evil.example',
    'javascript:alert(1)',
    'data:text/html,x',
    '/console@evil.example',
    '/consoleevil.example',
    'https:evil.example',
    '/console/sign-out',
  ];
  test.each(targets)('is a page of the console after %j', async (next) => {
    for (const path of ['/console/sign-in', '/console/second-factor']) {
      const { status, headers } = await plain.member.get(`${path}?${new URLSearchParams({ next })}`);
      expect(status).toBe(303);
      const url = new URL(headers.get('location') ?? '', server.base_url);
      expect([url.origin, url.pathname]).toEqual([server.base_url, expect.stringMatching(/^\/console(?:\/|$)/)]);
      expect(headers.get('set-cookie')).toBeNull();
    }
  });
});

describe('a file', () => {
  test.each(['=HYPERLINK("https://evil.example")', '+1+cmd|x', '-1+cmd|x', '@SUM(1)', '"=1"', 'a\r\n=1'])(
    'has no cell that a spreadsheet runs, and a plain name: %j',
    async (name) => {
      const tenant = await server.newTenant();
      const { api_key: key } = tenant;
      const json = { name, type: 'private', permissions: ['token:create'] };
      const { status, body } = await server.request('POST', '/applications', { key, json });
      // A name of one line is all that the API takes.
      if (name.includes('\n')) return expect(status).toBe(400);
      const made = await server.request('POST', '/tokens', {
        key: body.key,
        json: { data: 'x', id: name, type: 'token' },
      });
      expect([201, 400]).toContain(made.status);
      const member = await server.signIn({ tenant });
      for (const path of ['/console/logs/export', '/console/access/review']) {
        const file = await member.get(path);
        expect([path, file.status]).toEqual([path, 200]);
        expect(file.headers.get('content-disposition')).toMatch(/^attachment; filename="[a-z0-9-]+\.csv"$/);
        for (const cell of file.text.split(/,|\r\n/))
          expect(cell).not.toMatch(/^"?(?:[=@\t\r]|[+-](?!\d+(?:\.\d+)?"?$))/);
        expectGuarded(file, path);
      }
      return undefined;
    },
  );
});

// Last: these change records, and the session is one of their own.
test('hostile texts in every field of every form are no markup in what comes back', async () => {
  const { member, ids, tenant } = hostile;
  const before = await stateOf(tenant);
  const fields = Object.fromEntries((await fieldNames()).map((name) => [name, HOSTILE]));
  expect(Object.keys(fields).length).toBeGreaterThan(60);
  const ending = /delete|remove|revoke|sign-out|\/tenant$/;
  const ordered = [...forms.filter((url) => !ending.test(url)), ...forms.filter((url) => ending.test(url))];
  for (const url of ordered) {
    if (url === '/console/sign-out') continue;
    for (const wanted of ['save', 'deploy', 'test', 'run', 'pick', 'preview', 'send', 'try'].slice(
      0,
      url.endsWith(':id') || url.endsWith('/test') ? 8 : 1,
    )) {
      await member.get('/console/account');
      const answer = await member.post(pathOf(url, ids), { ...fields, do: wanted });
      expect([url, wanted, answer.status < 500, injectedIn(answer.text)]).toEqual([url, wanted, true, []]);
      expectGuarded(answer, url);
    }
  }
  expect(await stateOf(tenant)).not.toEqual(before);
});

test('a text of 300 KB in any field is refused or taken, and fails nothing', async () => {
  const long = 'x'.repeat(300_000);
  const member = await server.signIn({ tenant: plain.tenant });
  for (const url of forms.filter((each) => each !== '/console/sign-out')) {
    await member.get('/console/account');
    const answer = await member.post(pathOf(url, plain.ids).replace(plain.ids.members, NO_ID), {
      name: long,
      code: long,
      do: 'save',
    });
    expect([url, answer.status < 500]).toEqual([url, true]);
  }
});
