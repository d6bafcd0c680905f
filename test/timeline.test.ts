// GET /tokens/{id}/timeline: a card across its tokens, folded entries, destinations, and what a caller may not see of it.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CARD_TOKENS_MAX, TIMELINE_ROWS_MAX, TIMELINE_ROWS_WALKED } from '../src/modules/tokens/timeline.ts';
import { codeOf, makeReactor, react, type ReactorServer, startReactorServer } from './support/reactors.ts';
import type { Answer, TestServer, TestTenant } from './support/server.ts';

let fixture: ReactorServer;
let server: TestServer;
let tenant: TestTenant;
let host: string;

beforeAll(async () => {
  fixture = await startReactorServer();
  ({ server } = fixture);
  ({ host } = new URL(fixture.url));
  tenant = await server.newTenant();
  fixture.routes.set('/cut', (request) => void request.socket.destroy());
});
afterAll(() => fixture.close());

let cards = 0;
/** A number with a valid check digit, another one each time. */
const newNumber = (): string => {
  const digits = `42424242${String((cards += 1)).padStart(7, '0')}`;
  const sum = [...digits].reduce((total, digit, index) => {
    const doubled = Number(digit) * (index % 2 === 0 ? 2 : 1);
    return total + (doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return `${digits}${(10 - (sum % 10)) % 10}`;
};

const newCard = async (number: string, more: object = {}): Promise<string> => {
  const data = { number, expiration_month: 12, expiration_year: 2030 };
  const json = { type: 'card', data, ...more };
  const answer = await server.request('POST', '/tokens', { key: tenant.api_key, json });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};

const ask = (id: string, query = '', key = tenant.api_key): Promise<Answer> =>
  server.request('GET', `/tokens/${id}/timeline${query}`, { key });

const timelineOf = async (id: string, query = '', key = tenant.api_key) => {
  const { status, text, body } = await ask(id, query, key);
  expect(status, text).toBe(200);
  return body;
};

const send = (id: string, path: string) =>
  server.request('POST', '/proxy', {
    key: tenant.api_key,
    json: { card: `{{ ${id} | json: '$.number' }}` },
    headers: { 'svc-proxy-url': `${fixture.url}${path}` },
  });

const at = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
const messagesOf = ({ entries }: { entries: { message: string; count: number }[] }) =>
  entries.map(({ message, count }) => [message, count]);

describe('a timeline', () => {
  test('folds equal entries about all tokens of a card, and counts them', async () => {
    const number = newNumber();
    const [one, two] = [await newCard(number), await newCard(number)];
    const other = await newCard(newNumber());
    for (const id of [one, two, one, other]) await server.request('GET', `/tokens/${id}`, { key: tenant.api_key });
    const timeline = await timelineOf(one);
    const actor = { actor_type: 'application', actor_id: tenant.application_id, application_id: tenant.application_id };
    expect({ ...timeline, token_ids: timeline.token_ids.toSorted() }).toEqual({
      token_ids: [one, two].toSorted(),
      count: 5,
      first_at: at,
      last_at: at,
      entries: [
        {
          ...actor,
          operation: 'read',
          message: 'Token retrieved',
          outcome: 'success',
          disclosure: 'masked',
          actor_name: expect.any(String),
          count: 3,
          first_at: at,
          last_at: at,
        },
        {
          ...actor,
          operation: 'create',
          message: 'Token created',
          outcome: 'success',
          disclosure: 'none',
          actor_name: expect.any(String),
          count: 2,
          first_at: at,
          last_at: at,
        },
      ],
      destinations: [],
    });
    expect(timeline.first_at <= timeline.last_at).toBe(true);
    expect((await timelineOf(two)).count).toBe(5);
  });

  test('shows where the value went: hosts with counts and failures, and code', async () => {
    const id = await newCard(newNumber());
    expect((await send(id, '/ok')).status).toBe(200);
    expect((await send(id, '/ok')).status).toBe(200);
    expect((await send(id, '/cut')).status).toBe(502);
    const key = tenant.api_key;
    const reactor = await makeReactor(server, { code: codeOf('return { raw: 1 };'), key });
    await react(server, reactor, { card: `{{ ${id} }}` }, { key });
    const { destinations, entries } = await timelineOf(id);
    expect(destinations).toEqual([{ destination_host: host, count: 3, failed: 1, first_at: at, last_at: at }]);
    const used = entries.filter(({ disclosure }: { disclosure: string }) => disclosure === 'used');
    expect(
      used.map((entry: any) => [entry.reactor_name ?? entry.destination_host, entry.outcome, entry.count]),
    ).toEqual([
      ['Reactor', 'success', 1],
      [host, 'failed', 1],
      [host, 'success', 3],
    ]);
  });

  test('has the entries of an interval, and its own readings are entries of the log alone', async () => {
    const id = await newCard(newNumber());
    const { first_at } = await timelineOf(id);
    const after = new Date(Date.parse(first_at) + 1).toISOString();
    expect(messagesOf(await timelineOf(id, `?end_date=${after}`))).toEqual([['Token created', 1]]);
    const empty = await timelineOf(id, `?start_date=${after}`);
    expect(empty).toEqual({ token_ids: [id], count: 0, entries: [], destinations: [] });
    const rows = await server.sql(
      "SELECT entity_type FROM audit_log WHERE tenant_id = $1 AND message = 'Token timeline retrieved' ORDER BY id DESC LIMIT 1",
      [tenant.tenant_id],
    );
    expect(rows).toEqual([{ entity_type: 'log' }]);
  });

  test.each([
    ['?start_date=x', 'start_date'],
    ['?end_date=x', 'end_date'],
    ['?start_date=2026-02-01&end_date=2026-01-01', 'start_date'],
    ['?size=1', 'size'],
  ])('of %s is a 400 that names the place', async (query, place) => {
    const answer = await ask(await newCard(newNumber()), query);
    expect([answer.status, Object.keys(answer.body.errors)]).toEqual([400, [place]]);
  });

  test('of a token that is unknown, expired or not storable text is a 404', async () => {
    const expired = await newCard(newNumber(), { expires_at: new Date(Date.now() + 3_600_000).toISOString() });
    server.clock.offsetMs += 7_200_000;
    expect([(await ask('unknown')).status, (await ask(expired)).status, (await ask('%00')).status]).toEqual([
      404, 404, 404,
    ]);
    server.clock.offsetMs -= 7_200_000;
  });
});

describe('what a caller may not see', () => {
  const keyWith = async (rules: object[], permissions: string[] = ['log:read']): Promise<string> => {
    const json = { name: 'K', permissions, rules: rules.map((rule, index) => ({ priority: index + 1, ...rule })) };
    const made = await server.request('POST', '/applications', { key: tenant.api_key, json });
    expect(made.status, made.text).toBe(201);
    return made.body.key;
  };
  const reading = (container: string, transform: string) => ({ container, transform, permissions: ['token:read'] });

  test('is refused by the permission that lacks', async () => {
    const id = await newCard(newNumber());
    for (const [permissions, missing] of [
      [['token:read'], 'log:read'],
      [['log:read'], 'token:read'],
    ] as const) {
      const { api_key } = await server.newKey(tenant, { permissions: [...permissions] });
      const answer = await ask(id, '', api_key);
      expect([answer.status, answer.body.detail]).toEqual([403, expect.stringContaining(missing)]);
    }
    const elsewhere = await keyWith([reading('/elsewhere/', 'mask')]);
    expect((await ask(id, '', elsewhere)).status).toBe(403);
  });

  test('is not listed or counted: tokens of other containers, and with hidden fingerprints', async () => {
    const number = newNumber();
    const [first, second] = [
      await newCard(number, { containers: ['/a/'] }),
      await newCard(number, { containers: ['/b/'] }),
    ];
    for (const id of [first, second]) await server.request('GET', `/tokens/${id}`, { key: tenant.api_key });
    const seen = async (id: string, rules: object[]) => {
      const { token_ids, count } = await timelineOf(id, '', await keyWith(rules));
      return [token_ids.toSorted(), count];
    };
    const both = [first, second].toSorted();
    expect(await seen(first, [reading('/', 'mask')])).toEqual([both, 4]);
    expect(await seen(first, [reading('/a/', 'mask')])).toEqual([[first], 2]);
    expect(await seen(first, [reading('/a/', 'mask'), reading('/b/', 'redact')])).toEqual([[first], 2]);
    // Who sees nothing of this token does not find out which others are equal.
    expect(await seen(first, [reading('/a/', 'redact'), reading('/b/', 'reveal')])).toEqual([[first], 2]);
  });
});

describe('a card with very much', () => {
  /** Rows of the log about a token, of the times from one on. */
  const fill = (of: string, entity: string, rows: number, atMs: number) =>
    server.sql(
      `INSERT INTO audit_log (tenant_id, id, actor_type, entity_type, entity_ids, operation, message, created_at, disclosure, mac)
       SELECT $1, (lpad(to_hex($4::bigint + n), 12, '0') || '70008' || substr(md5(n::text), 1, 15))::uuid, 'system', 'card', ARRAY[$2],
         'read', 'Token retrieved', to_timestamp(($4::bigint + n) / 1000.0), 'masked', gen_random_uuid()
       FROM generate_series(1, $3::int) AS n`,
      [of, entity, rows, atMs],
    );

  test('has its newest tokens, and says that there are more', async () => {
    const number = newNumber();
    const first = await newCard(number);
    const data = { number, expiration_month: 12, expiration_year: 2030 };
    const body = Array.from({ length: CARD_TOKENS_MAX }, () => ({ type: 'card', data }));
    await server.tokenize(body, tenant.api_key);
    const { token_ids, has_more_tokens } = await timelineOf(first);
    expect([token_ids.length, token_ids.includes(first), has_more_tokens]).toEqual([CARD_TOKENS_MAX, true, true]);
  });

  test('has the entries since a time, and those before it in the next answers: each once', async () => {
    const busy = await newCard(newNumber());
    const began = Date.now() - 3_600_000;
    await fill(tenant.tenant_id, busy, TIMELINE_ROWS_MAX + 1, began);
    const whole = await timelineOf(busy);
    // Its entries, and those of the tenant around them, are few enough to be searched.
    expect([whole.count, whole.since]).toEqual([TIMELINE_ROWS_MAX + 2, undefined]);
    await fill(tenant.tenant_id, randomUUID(), TIMELINE_ROWS_WALKED, began + TIMELINE_ROWS_MAX / 2);
    const newest = await timelineOf(busy);
    expect(newest.count).toBeLessThan(TIMELINE_ROWS_MAX);
    expect(Date.parse(newest.since)).toBeGreaterThan(began);
    const rest = await timelineOf(busy, `?end_date=${newest.since}`);
    expect([newest.count + rest.count, rest.since]).toEqual([TIMELINE_ROWS_MAX + 2, undefined]);
    expect(rest.last_at < newest.since).toBe(true);
  });
});
