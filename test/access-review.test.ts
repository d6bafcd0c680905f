// GET /access/review names every principal and orphan, as JSON and as CSV; an attestation names the file by its digest.
import { createHash } from 'node:crypto';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { countOverdueReviews, REVIEW_PAGE } from '../src/modules/answers/review-rows.ts';
import { startServer, type TestServer, type TestTenant } from './support/server.ts';
import { join } from './support/people.ts';
import { makeProxy } from './support/stored-proxies.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const APPLICATIONS = 10_000;
const ORPHANS = 137;

const review = async (format: 'json' | 'csv', key?: string) => {
  const answer = await server.request('GET', `/access/review?format=${format}`, key === undefined ? {} : { key });
  expect(answer.status, answer.text.slice(0, 500)).toBe(200);
  return answer;
};

const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex');

describe('of a tenant with 10,000 applications, made by SQL', () => {
  let tenant: TestTenant;
  beforeAll(async () => {
    tenant = await server.newTenant();
    const { tenant_id, application_id } = tenant;
    await server.sql(
      `INSERT INTO applications (tenant_id, id, name, search_name, type, permissions, rules, created_at, created_by)
       SELECT $1::uuid, gen_random_uuid(), '=cmd|' || n, '=cmd|' || n, 'private', ARRAY['token:use', 'session:create'],
         jsonb_build_array(jsonb_build_object('priority', 1, 'container', '/c' || n % 7 || '/', 'transform', 'reveal',
           'permissions', jsonb_build_array('token:read'))),
         now(), CASE WHEN n <= $4 THEN gen_random_uuid() ELSE $2::uuid END
       FROM generate_series(1, $3::int) AS n`,
      [tenant_id, application_id, APPLICATIONS - 1, ORPHANS],
    );
    await server.sql(
      `INSERT INTO api_keys (public_id, tenant_id, application_id, digest, created_at, last_used_at)
       SELECT 'review' || row_number() OVER (ORDER BY id), tenant_id, id, '\\x00', now() - interval '200 days',
         CASE WHEN id < 'ffffffff-0000-0000-0000-000000000000' THEN now() END
       FROM applications WHERE tenant_id = $1 AND id <> $2`,
      [tenant_id, application_id],
    );
    for (let n = 0; n < 7; n += 1)
      for (let turn = 0; turn <= n; turn += 1) {
        const json = { data: `SECRET-${n}-${turn}`, containers: [`/c${n}/`] };
        expect((await server.request('POST', '/tokens', { json, key: tenant.api_key })).status).toBe(201);
      }
  });

  test('each application, key, creator of sessions and orphan is named once', async () => {
    const { tenant_id, api_key } = tenant;
    const answer = await review('json', api_key);
    const { rows, containers } = answer.body;
    const of = (kind: string) => rows.filter((row: any) => row.kind === kind);
    const ids = new Set(of('application').map(({ id }: any) => id));
    expect([of('application').length, ids.size]).toEqual([APPLICATIONS, APPLICATIONS]);
    expect(of('session_creator').length).toBe(APPLICATIONS);
    expect(of('key').length).toBe(APPLICATIONS);
    const gone = of('application').filter(({ orphan }: any) => orphan.includes('creator is gone'));
    expect(gone.length).toBe(ORPHANS);
    const [{ unused }] = await server.sql(
      `SELECT count(*)::int AS unused FROM api_keys WHERE tenant_id = $1 AND last_used_at IS NULL
         AND created_at < now() - interval '90 days'`,
      [tenant_id],
    );
    const found = of('key').filter(({ orphan }: any) => orphan.includes('unused for 90 days'));
    expect(found.length).toBe(unused);
    expect(containers).toEqual(Array.from({ length: 7 }, (_, n) => ({ container: `/c${n}/`, tokens: n + 1 })));
    const one = of('application').find(({ name }: any) => name === '=cmd|3');
    expect(one).toMatchObject({
      reveals: ['tokens below /c3/'],
      reveals_tokens: 4,
      uses: ['all tokens'],
      uses_tokens: 28,
      changes: [],
      other_permissions: ['session:create'],
      age_days: 0,
    });
    expect(answer.text).not.toMatch(/SECRET|fingerprint/);
  });

  test('its statements are those of pages, and each page is made in turns of the event loop', async () => {
    const names: string[] = [];
    const { query } = Client.prototype;
    const statements = vi.spyOn(Client.prototype, 'query').mockImplementation(function (this: Client, ...given) {
      const [statement] = given as unknown as [{ name?: string }];
      if (statement.name?.startsWith('review-')) names.push(statement.name);
      return Reflect.apply(query, this, given);
    });
    const turns = vi.spyOn(server.ctx.accounts, 'runInTurns');
    try {
      await review('csv', tenant.api_key);
      const pages = APPLICATIONS / REVIEW_PAGE;
      // The last page is empty: it says that there are no more.
      const count = (name: string) => names.filter((each) => each === name).length;
      expect(count('review-applications')).toBe(pages + 1);
      expect([count('review-keys'), count('review-sessions')]).toEqual([pages, pages]);
      expect(names.length).toBeLessThan(4 * pages);
      expect(turns.mock.calls.length).toBeGreaterThanOrEqual(pages);
    } finally {
      statements.mockRestore();
      turns.mockRestore();
    }
  });

  test('as CSV no cell is a formula, and the digest is that of the file', async () => {
    const { text, headers } = await review('csv', tenant.api_key);
    expect(headers.get('content-type')).toBe('text/csv; charset=utf-8');
    expect(headers.get('svc-review-digest')).toBe(digestOf(text));
    const lines = text.trimEnd().split('\r\n');
    expect(lines.length).toBe(1 + 3 * APPLICATIONS);
    expect(lines.filter((line) => line.includes("'=cmd|")).length).toBe(2 * (APPLICATIONS - 1));
    expect(lines.filter((line) => /(^|,)"?[=+@-]\D/.test(line))).toEqual([]);
  });
});

describe('of a tenant with one of each', () => {
  test('a member, an open proxy and a public application have what the routes give them', async () => {
    const tenant = await server.newTenant();
    const { email } = await join(server, { tenant });
    const rule = { priority: 1, container: '/pci/', transform: 'reveal', permissions: ['token:use'] };
    const make = (json: object) =>
      server.request('POST', '/applications', { key: tenant.api_key, json: { name: 'A', ...json } });
    const lent = (await make({ rules: [rule], allowed_hosts: ['api.example.com'], daily_uses: 5 })).body;
    const open = { require_auth: false, application: { id: lent.id }, destination_url: 'https://api.example.com' };
    const proxy = await makeProxy(server, open, tenant.api_key);
    await makeProxy(server, { destination_url: 'https://api.example.com' }, tenant.api_key);
    const { id: public_id } = (await make({ type: 'public', permissions: ['token:create'] })).body;
    const { body, text } = await review('json', tenant.api_key);
    const of = (kind: string) => body.rows.filter((row: any) => row.kind === kind);
    expect(of('open_proxy')).toMatchObject([
      {
        id: proxy.id,
        application_id: lent.id,
        reveals: [],
        uses: ['tokens below /pci/'],
        hosts: ['api.example.com'],
        limits: ['5 uses a day'],
        orphan: ['no authentication'],
      },
    ]);
    expect(of('member')).toMatchObject([{ type: 'ADMIN', reveals: ['all tokens'], uses: ['all tokens'] }]);
    expect(of('application').find(({ id }: any) => id === public_id)).toMatchObject({
      type: 'public',
      reveals: [],
      uses: [],
      changes: ['store all tokens'],
    });
    expect(text).not.toContain(email);
    expect(text).not.toContain(tenant.api_key);
  });

  test('nothing of another tenant is in it, and a caller without access:read gets none', async () => {
    const [one, other] = [await server.newTenant(), await server.newTenant()];
    const foreign = await server.request('POST', '/applications', {
      key: other.api_key,
      json: { name: 'Foreign', permissions: ['log:read'] },
    });
    const { text } = await review('json', one.api_key);
    for (const theirs of [other.tenant_id, other.application_id, foreign.body.id, 'Foreign'])
      expect(text).not.toContain(theirs);
    const { api_key } = await server.newKey(one, {
      permissions: ['application:read', 'tenant:member:read', 'log:read'],
    });
    expect((await server.request('GET', '/access/review', { key: api_key })).status).toBe(403);
    expect((await server.request('GET', '/access/review?format=xml', { key: one.api_key })).status).toBe(400);
  });
});

describe('an attestation', () => {
  test('is an entry of the log with the digest of the file and the note', async () => {
    const tenant = await server.newTenant();
    const { text } = await review('csv', tenant.api_key);
    const json = { digest: digestOf(text).toUpperCase(), note: 'Read by Ada, REVIEW-17' };
    const answer = await server.request('POST', '/access/review/attestations', { json, key: tenant.api_key });
    expect(answer.body, answer.text).toEqual({
      digest: digestOf(text),
      note: json.note,
      attested_by: tenant.application_id,
      attested_at: expect.any(String),
    });
    const { body } = await server.request('GET', '/logs?entity_type=access_review', { key: tenant.api_key });
    expect(body.data).toMatchObject([
      {
        operation: 'create',
        entity_id: digestOf(text),
        actor_id: tenant.application_id,
        message: 'Access review attested: Read by Ada, REVIEW-17',
      },
    ]);
  });

  test('is what doctor counts: without one a tenant is overdue', async () => {
    const tenant = await server.newTenant();
    const since = new Date(server.ctx.now().getTime() + 1);
    server.clock.offsetMs += 1_000;
    const { query } = server.ctx.db.statements;
    const before = await countOverdueReviews(query, since);
    const json = { digest: 'a'.repeat(64) };
    const path = '/access/review/attestations';
    expect((await server.request('POST', path, { json, key: tenant.api_key })).status).toBe(200);
    expect(await countOverdueReviews(query, since)).toEqual({ ...before, overdue: before.overdue - 1 });
  });

  test.each<[string, object, string]>([
    ['a digest that is none', { digest: 'x' }, 'digest'],
    ['no digest', { note: 'x' }, 'digest'],
    ['a note with a card number', { digest: 'a'.repeat(64), note: 'of 4242 4242-4242.4242' }, 'note'],
    ['a note with a line end', { digest: 'a'.repeat(64), note: 'a\nb' }, 'note'],
    ['a long note', { digest: 'a'.repeat(64), note: 'a'.repeat(201) }, 'note'],
  ])('with %s is a 400 at its place', async (_, json, place) => {
    const { status, body } = await server.request('POST', '/access/review/attestations', { json });
    expect([status, Object.keys(body.errors)]).toEqual([400, [place]]);
  });
});
