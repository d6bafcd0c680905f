// Query plans of hot statements and lists on filled tables: none reads a whole table.
// Joined columns have one type and one collation. Empty tables would hide an index that cannot be used.
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { countLogEntries, type LogEntry, type LogFilter, listLogEntries } from '../src/modules/logs/rows.ts';
import {
  countRevealed,
  countUnknownForwards,
  countWaitingInvitations,
  findKeysToWatch,
  findStepsDone,
  findUserOfMember,
  listSessionsOfMember,
} from '../src/modules/console/rows.ts';
import {
  countFailuresByHour,
  countRuns,
  countRunsByHour,
  findBegunRuns,
  findFailing,
  findRun,
  listRunRows,
  type RunFilter,
} from '../src/modules/runs/rows.ts';
import {
  countForwards,
  findForward,
  findForwardByTrace,
  type ForwardFilter,
  forwardStates,
  listForwardRows,
} from '../src/modules/runs/forward-rows.ts';
import { DELETE_RUNS, DELETE_USAGE } from '../src/platform/maintenance/sweep.ts';
import { ADD_USAGE, findUsage, LATENCY_BOUNDS_MS } from '../src/modules/access/rows/usage.ts';
import { countFormulas, findFormulas, listFormulas } from '../src/modules/code/rows/formulas.ts';
import type { Query } from '../src/platform/db/statements.ts';
import type { TokenCondition } from '../src/modules/access/token-condition.ts';
import { FIND_LAST_USES, WRITE_KEY_USES } from '../src/modules/access/rows/key-uses.ts';
import { COUNT_DAILY_TOKENS, FIND_ARRIVAL, TAKE_REQUEST } from '../src/modules/access/rows/limits.ts';
import { FIND_API_KEY } from '../src/modules/access/rows/api-keys.ts';
import { FIND_SESSION } from '../src/modules/access/rows/find-session.ts';
import { findBoundary, foldRange, foldTimeline } from '../src/modules/tokens/timeline.ts';
import { DIGESTS_DUE_MAX, findTokenPage, findTokensDue, listTokenRows } from '../src/modules/tokens/rows/token-list.ts';
import { INSERT_LOGS, INSERT_LOGS_AND_RUNS, INSERT_REFUSAL } from '../src/platform/db/audit-rows.ts';
import { INSERT_RUNS } from '../src/platform/db/run-rows.ts';
import { FIND_EPHEMERAL_KEYS } from '../src/platform/keys/rows.ts';
import { firstIdAt, timeOfId } from '../src/platform/crypto/ids.ts';
import { COUNTED_MAX } from '../src/platform/base/pagination.ts';
import * as tokenTexts from '../src/modules/tokens/rows/token-sql.ts';
import { type Browser, type SharedConsole, useConsole } from './support/console.ts';
import { consoleRoutes, furnish, type Furnished, pathOf } from './support/console-pages.ts';
import { createDatabase } from './support/database.ts';
import {
  ACTOR,
  expectByIndex,
  FIRST_ID,
  LAST_ID,
  literal,
  nodesOf,
  number,
  openFilled,
  OTHER_TENANT,
  planOf,
  RARE_ACTOR,
  ROWS,
  TENANT,
  WANTED,
  wholeTables,
} from './support/filled.ts';
import type { TestTenant } from './support/server.ts';

/** Blocks that a call of a function may look at: one row in each of four tables, with all indexes. */
const FUNCTION_BLOCKS_MAX = 400;

let client: Client;
let close: () => Promise<void>;
let ids: string[];
let prints: string[];

beforeAll(async () => {
  ({ client, close } = await openFilled());
  const text = 'SELECT id, fingerprint FROM tokens WHERE tenant_id = $1 ORDER BY id LIMIT $2';
  const { rows } = await client.query(text, [TENANT, WANTED]);
  ids = rows.map(({ id }) => id);
  prints = rows.map(({ fingerprint }) => fingerprint);
});
afterAll(() => close());

const now = new Date();
const logRow = (more: object = {}) => ({
  id: FIRST_ID,
  actor_id: ACTOR,
  actor_type: 'application',
  operation: 'read',
  message: 'm',
  created_at: now,
  disclosure: 'none',
  outcome: 'success',
  mac: FIRST_ID,
  ...more,
});
const tokenRow = (id: string) => ({
  id,
  type: 'card',
  sealed: 'AAAA',
  fingerprint: 'print-new',
  fingerprint_expression: '{{ data }}',
  container: '/pci/high/',
  search_digests: ['digest-new'],
  cvc_sealed: 'AAAA',
  cvc_expires_at: now,
  created_at: now,
  created_by: ACTOR,
  log_id: FIRST_ID,
  log_mac: FIRST_ID,
  masked: true,
});

const texts = {
  ...tokenTexts,
  COUNT_DAILY_TOKENS,
  FIND_API_KEY,
  FIND_ARRIVAL,
  FIND_EPHEMERAL_KEYS,
  FIND_LAST_USES,
  FIND_SESSION,
  INSERT_LOGS,
  INSERT_LOGS_AND_RUNS,
  INSERT_REFUSAL,
  INSERT_RUNS,
  TAKE_REQUEST,
  WRITE_KEY_USES,
  ADD_USAGE,
};

/** Parameters for each statement. */
const statements: Record<keyof typeof texts, (() => unknown[]) | undefined> = {
  INSERT_TOKENS: () => [
    TENANT,
    JSON.stringify([{ ...tokenRow('new-token'), actor_type: 'application', message: 'm' }]),
  ],
  // The plans within a function are its own: its blocks are counted below.
  INSERT_UNIQUE_TOKENS: undefined,
  COUNT_DAILY_TOKENS: undefined,
  FIND_TAKEN_IDS: () => [TENANT, ['token-17', 'token-18', 'missing']],
  FIND_ARRIVAL: () => [TENANT, ACTOR],
  FIND_LAST_USES: () => [TENANT, [ACTOR, RARE_ACTOR]],
  WRITE_KEY_USES: () => [
    [TENANT, TENANT],
    ['key-17', 'key-18'],
    [now, now],
  ],
  TAKE_REQUEST: () => [TENANT, ACTOR, 5000, 10, 100],
  ADD_USAGE: () => [
    TENANT,
    JSON.stringify([
      {
        hour: '2031-01-01T00:00:00Z',
        kind: 'used',
        application_id: ACTOR,
        requests: 1,
        tokens: 1,
        ...Object.fromEntries([...LATENCY_BOUNDS_MS, 'more'].map((bound) => [`ms_${bound}`, 0])),
      },
    ]),
  ],
  INSERT_LOGS: () => [TENANT, JSON.stringify([logRow({ entity_type: 'card', entity_ids: [ids[0]] })])],
  INSERT_LOGS_AND_RUNS: () => [
    TENANT,
    JSON.stringify([
      {
        ...logRow({ entity_type: 'card', entity_ids: [ids[0]] }),
        run: { id: FIRST_ID, run: '{}', mac: FIRST_ID },
      },
    ]),
  ],
  INSERT_RUNS: () => [TENANT, JSON.stringify([{ id: FIRST_ID, kind: 'proxy', outcome: 'success', mac: FIRST_ID }])],
  INSERT_REFUSAL: () => [
    TENANT,
    JSON.stringify(logRow({ entity_type: 'card', entity_ids: ids.slice(0, 1) })),
    FIRST_ID,
    60,
    'Sign-in failed',
  ],
  FIND_TOKENS: () => [TENANT, ids],
  FIND_VALUES: () => [TENANT, ids],
  FIND_RECORDS: () => [TENANT, ids],
  FIND_EPHEMERAL_KEYS: () => [ids],
  FIND_BY_FINGERPRINTS: () => [TENANT, prints, prints.map(() => '{{ data }}'), now, ['/pci/%'], prints.map(() => null)],
  LOCK_FINGERPRINTS: () => [TENANT, prints],
  ADD_TO_SESSION: () => [TENANT, ACTOR, ['new-token'], now, null],
  FIND_SESSION: () => ['key-17'],
  INSERT_ASSOCIATION: () => [TENANT, ids[0], ids[1], now, ACTOR],
  LINK_TOKEN: () => [TENANT, ids[0], ids[1], now, ACTOR],
  DELETE_ASSOCIATION: () => [TENANT, ids[0], ids[1]],
  LOCK_TOKEN: () => [TENANT, ids[0], now],
  UPDATE_TOKEN: () => [
    TENANT,
    ids[0],
    'AAAA',
    'print-x',
    '{{ data }}',
    '/x/',
    '{}',
    [],
    [],
    now,
    false,
    now,
    ACTOR,
    null,
  ],
  PUT_CVC: () => [TENANT, ids[0], 'AAAA', now],
  DELETE_CVC: () => [TENANT, ids[0]],
  LOCK_FOR_DELETE: () => [TENANT, ids[0]],
  DELETE_TOKEN: () => [
    TENANT,
    ids[0],
    '/pci/high/',
    JSON.stringify(logRow({ entity_type: 'card', entity_ids: ids.slice(0, 1) })),
  ],
  DELETE_TOKENS: () => [TENANT, ids.slice(0, 2)],
  DELETE_CVCS: () => [TENANT, ids.slice(0, 2)],
  COUNT_DELETED: undefined,
  FIND_API_KEY: () => ['key-17'],
  TOKEN_COLUMNS: undefined,
  TOKEN_TYPES: undefined,
  VALUE_COLUMNS: undefined,
};

const textOf = new Map<string, string>(Object.entries(texts).map(([name, text]) => [name, String(text)]));

describe('a statement of the hot path finds its rows by an index', () => {
  test.each(Object.entries(statements).flatMap(([name, values]) => (values ? [[name, values] as const] : [])))(
    '%s',
    async (name, values) => expectByIndex(client, [textOf.get(name) ?? '', values()]),
  );

  test('INSERT_UNIQUE_TOKENS, of a token that is new and of one that is there', async () => {
    for (const [fingerprint, id] of [
      ['print-new', 'new-token'],
      [prints[0], 'another-token'],
    ] as const) {
      const row = { ...tokenRow(id), fingerprint, seen: ['%'], actor_type: 'application', message: 'm' };
      const plan = await planOf(client, [texts.INSERT_UNIQUE_TOKENS, [TENANT, JSON.stringify([row])]], 'generic');
      expect(number(plan, 'Shared Hit Blocks') + number(plan, 'Shared Read Blocks')).toBeLessThan(FUNCTION_BLOCKS_MAX);
    }
  });

  test('COUNT_DAILY_TOKENS, of a token that is new and of ones that are counted', async () => {
    for (const wanted of [['new-token'], [ids[0], ids[1]]]) {
      const values = [TENANT, ACTOR, 'daily_reveals', '2031-05-05', wanted, ROWS * 2, FIRST_ID, now];
      const plan = await planOf(client, [texts.COUNT_DAILY_TOKENS, values], 'generic');
      expect(number(plan, 'Shared Hit Blocks') + number(plan, 'Shared Read Blocks')).toBeLessThan(FUNCTION_BLOCKS_MAX);
    }
  });

  test('every statement has parameters here', () => {
    expect(Object.keys(statements).toSorted()).toEqual(Object.keys(texts).toSorted());
  });
});

describe('a plan that was made while the table was nearly empty', () => {
  test.each(['FIND_TOKENS', 'FIND_RECORDS', 'FIND_BY_FINGERPRINTS', 'LOCK_TOKEN', 'LOCK_FOR_DELETE'])(
    'of %s looks up each token by its id or fingerprint',
    async (name) => {
      const empty = await createDatabase();
      const other = new Client(empty.address);
      await other.connect();
      try {
        await other.query('SET enable_seqscan = off');
        await other.query('SET plan_cache_mode = force_generic_plan');
        await other.query(`PREPARE planned AS ${textOf.get(name)}`);
        const values = statements[name as keyof typeof texts]?.() ?? [];
        const { rows } = await other.query(`EXPLAIN (FORMAT JSON) EXECUTE planned(${values.map(literal).join(', ')})`);
        const scans = nodesOf(rows[0]['QUERY PLAN'][0].Plan).filter((node) => node['Relation Name'] === 'tokens');
        expect(scans).toHaveLength(1);
        expect(scans[0]?.['Index Cond']).toMatch(/\b(id|fingerprint) = /);
      } finally {
        await other.end();
        await empty.drop();
      }
    },
  );
});

/** Explains each statement of a list before it runs. PostgreSQL plans a statement without a name for its parameters. */
const explaining: Query = async (name, text, values) => {
  await expectByIndex(client, [text, values], name === undefined ? ['custom'] : ['custom', 'generic']);
  return (await client.query(text, values)).rows;
};

describe('a list finds its rows by an index', () => {
  const rare: [string, TokenCondition | undefined][] = [
    ['all tokens', undefined],
    ['an id', { kind: 'in', column: 'id', values: ['none'] }],
    ['a type', { kind: 'in', column: 'type', values: ['bank'] }],
    ['a container', { kind: 'in', column: 'container', values: ['/none/'] }],
    ['containers below one', { kind: 'starts_with', column: 'container', prefix: '/none/' }],
    ['a value', { kind: 'digest', digest: 'digest-17' }],
    ['a fingerprint', { kind: 'in', column: 'fingerprint', values: ['print-18'] }],
    ['a creator', { kind: 'in', column: 'created_by', values: [RARE_ACTOR] }],
    [
      'a container and a type that are frequent, and never together',
      {
        kind: 'and',
        nodes: [
          { kind: 'starts_with', column: 'container', prefix: '/general/' },
          { kind: 'in', column: 'type', values: ['card'] },
        ],
      },
    ],
    [
      'a value where the caller sees it',
      { kind: 'and', nodes: [{ kind: 'digest', digest: 'digest-17' }, { kind: 'unmasked' }] },
    ],
  ];

  test.each(rare)('of tokens by %s', async (_, condition) => {
    const request = { condition, now, limit: 21 };
    await findTokenPage({ query: explaining, tenant_id: TENANT }, { ...request, start: { offset: 0 } });
    if (condition === undefined)
      await listTokenRows(
        { query: explaining, tenant_id: TENANT },
        { ...request, start: { after: { created_at: now, id: 'x' } } },
      );
  });

  test('of the children of a token', async () => {
    await findTokenPage(
      { query: explaining, tenant_id: TENANT },
      {
        condition: undefined,
        parent_id: ids[0],
        now,
        start: { offset: 0 },
        limit: 21,
      },
    );
  });

  test('of formulas, official ones among them', async () => {
    const db = { query: explaining, tenant_id: TENANT };
    expect(await listFormulas(db, {}, 0, 21)).toHaveLength(21);
    expect(await listFormulas(db, { name: ids[0] }, 0, 21)).toHaveLength(1);
    expect(await listFormulas(db, { name: 'Official*' }, 0, 21)).toHaveLength(4);
    const [{ id }] = (await client.query('SELECT id FROM official_formulas LIMIT 1')).rows;
    const { rows } = await client.query(
      'SELECT id FROM reactor_formulas WHERE tenant_id = $1 ORDER BY created_at LIMIT 20',
      [TENANT],
    );
    const found = await findFormulas(db, [id, ...rows.map((row) => row.id)]);
    expect(found).toHaveLength(21);
    expect(await countFormulas(db, { name: ids[0] })).toEqual({ total: 1, capped: false });
  });

  test.each<[string, LogFilter]>([
    ['everything', {}],
    ['an entity', { entity_id: 'the first' }],
    ['an entity and a kind of entity', { entity_id: 'the first', entity_type: 'card' }],
    ['an actor who did little', { actor_id: RARE_ACTOR }],
    ['an operation that is rare', { operation: 'delete' }],
    ['what was refused', { outcome: 'refused' }],
    ['an actor and what was refused', { actor_id: ACTOR, outcome: 'refused' }],
    ['values that were revealed', { disclosure: 'revealed' }],
    ['values that were masked, of which there are none', { disclosure: 'masked' }],
    ['a trace', { trace_id: 'trace-18' }],
    ['an application that asked little', { application_id: RARE_ACTOR }],
    ['a host that was sent little', { destination_host: 'rare.example.com' }],
    ['a host and values that were revealed', { destination_host: 'api.example.com', disclosure: 'revealed' }],
    ['a kind of entity that is not there', { entity_type: 'reactor' }],
    ['everything but readings of the log', { not_entity_type: 'log' }],
  ])('of the log by %s', async (_, given) => {
    const filter = { ...given, ...(given.entity_id && { entity_id: ids[0] }) };
    const entries = await listLogEntries({ query: explaining, tenant_id: TENANT }, filter, { offset: 0 }, 21);
    await listLogEntries({ query: explaining, tenant_id: TENANT }, filter, { after: { id: FIRST_ID, place: 1 } }, 21);
    if (given.entity_id) expect(entries.length).toBeGreaterThan(0);
    // Counting stops where it is capped, and reads as much before.
    if (Object.keys(filter).length > 0 && !('not_entity_type' in filter))
      await countLogEntries({ query: explaining, tenant_id: TENANT }, filter);
  });
});

describe('runs', () => {
  test.each<[string, RunFilter]>([
    ['everything', {}],
    ['a kind that is rare', { kind: 'transform' }],
    ['a resource with few', { resource_id: RARE_ACTOR }],
    ['an actor who did little', { actor_id: RARE_ACTOR }],
    ['an outcome that is rare', { outcome: 'crashed' }],
    ['an outcome that is not there', { outcome: 'timed_out' }],
    ['any failure', { outcome: 'any_failure' }],
    ['any failure of a resource', { outcome: 'any_failure', resource_id: ACTOR }],
    ['statuses from 500 on', { destination_status: { least: 500, most: 599 } }],
    ['statuses from 400 on', { destination_status: { least: 400, most: 499 } }],
    ['a status of those', { destination_status: { least: 404, most: 404 } }],
    ['a status that is not there', { destination_status: { least: 418, most: 418 } }],
    ['another status that is rare', { destination_status: { least: 201, most: 201 } }],
  ])('are listed by %s', async (_, filter) => {
    const db = { query: explaining, tenant_id: TENANT };
    const runs = await listRunRows(db, filter, { offset: 0 }, 21);
    expect(runs.length > 0).toBe(!_.endsWith('not there'));
    await listRunRows(db, filter, { after: LAST_ID }, 21);
    if (Object.keys(filter).length > 0) await countRuns(db, filter);
  });

  test('are found by their ids, and the oldest of all tenants first', async () => {
    const [{ id }] = (await client.query('SELECT id FROM runs WHERE tenant_id = $1 LIMIT 1', [TENANT])).rows;
    expect(await findRun({ query: explaining, tenant_id: TENANT }, id)).toMatchObject({ id });
    expect(await findBegunRuns(explaining, LAST_ID, WANTED)).toHaveLength(WANTED);
    expect(await explaining(undefined, DELETE_RUNS, [LAST_ID, WANTED])).toEqual([]);
  });

  test('of a resource are counted by the hour', async () => {
    const db = { query: explaining, tenant_id: TENANT };
    // Of a resource with most of the runs the newest CHARTED_MAX are read.
    const range = { resource_id: RARE_ACTOR, from: FIRST_ID, at: new Date(1_790_000_000_000) };
    expect((await countRunsByHour(db, range)).length).toBeGreaterThan(0);
  });

  test('that failed are counted by indexes on failures', async () => {
    const found = await findFailing(explaining, { from: FIRST_ID, least: 1, most: 10 });
    expect(found).toMatchObject([{ resource_id: ACTOR, outcome: 'crashed' }, { resource_id: ACTOR }]);
    const of = { tenant_id: TENANT, resource_id: ACTOR };
    const before = { from: FIRST_ID, to: LAST_ID, at: new Date(1_790_000_000_000) };
    const counted = await countFailuresByHour(explaining, of, before);
    expect([...counted.values()].reduce((sum, count) => sum + count, 0)).toBeGreaterThan(5);
  });
});

describe('forwards', () => {
  test.each<[string, ForwardFilter]>([
    ['everything', {}],
    ['a state that is rare', { state: 'unknown' }],
    ['a state that is not there', { state: 'failed' }],
    ['a proxy with few', { proxy_id: RARE_ACTOR }],
    ['a proxy and a state that is rare', { proxy_id: ACTOR, state: 'unknown' }],
    ['a time', { from_id: FIRST_ID, to_id: LAST_ID }],
  ])('are listed by %s', async (_, filter) => {
    const db = { query: explaining, tenant_id: TENANT };
    const found = await listForwardRows(db, filter, { offset: 0 }, 21);
    expect(found.length > 0).toBe(!_.endsWith('not there'));
    await listForwardRows(db, filter, { after: LAST_ID }, 21);
    if (filter.state ?? filter.proxy_id) await countForwards(db, filter);
    expect(forwardStates).toContain(found[0]?.state ?? 'failed');
    if (found[0]) expect(await findForward(db, found[0].id)).toMatchObject(found[0]);
  });
});

test('what pages of the console ask beyond lists of the API is found by indexes', async () => {
  const db = { query: explaining, tenant_id: TENANT };
  const done = await findStepsDone(db);
  expect([done.token, done.run]).toEqual([true, true]);
  await findKeysToWatch(db, { now: new Date(0), before: new Date(1) });
  await countWaitingInvitations(db, new Date(0));
  expect((await countUnknownForwards(db, FIRST_ID)).count).toBeGreaterThan(0);
  const [{ id }] = (await client.query('SELECT id FROM forwards WHERE tenant_id = $1 LIMIT 1', [TENANT])).rows;
  const at = timeOfId(id).getTime();
  const of = { from_id: firstIdAt(at), to_id: firstIdAt(at + 1_000) };
  expect(await findForwardByTrace(db, 'no-such-trace', of)).toBeUndefined();
  await findUserOfMember(db, ACTOR);
  await listSessionsOfMember(db, ACTOR, { now: new Date(0), idleMs: 1 });
  const hour = new Date(Math.floor(now.getTime() / 3_600_000) * 3_600_000);
  expect((await countRevealed(db, [hour])).size).toBeLessThanOrEqual(1);
});

test('the usage of 30 days is read by an index, and what is too old is found', async () => {
  const day = 24 * 3_600_000;
  const range = { from: new Date(now.getTime() - 30 * day), to: now };
  const db = { query: explaining, tenant_id: TENANT };
  expect((await findUsage(db, { ...range, by: 'hour', application_id: undefined })).length).toBeGreaterThan(700);
  expect((await findUsage(db, { ...range, by: 'day', application_id: ACTOR })).length).toBeGreaterThan(29);
  expect(await explaining(undefined, DELETE_USAGE, [new Date(0), WANTED])).toEqual([]);
});

test('tokens whose search digests are due are found by their index', async () => {
  expect(await findTokensDue(explaining, [OTHER_TENANT])).toHaveLength(DIGESTS_DUE_MAX);
});

test('the timeline of a card reads the rows about its tokens alone', async () => {
  const range = { from_id: FIRST_ID, to_id: LAST_ID };
  const db = { query: explaining, tenant_id: TENANT };
  const one = await foldTimeline(db, { ...range, token_ids: ids.slice(0, 1) });
  expect(one?.count).toBe(3);
  expect(one?.destinations).toEqual([]);
  const many = await foldTimeline(db, { ...range, token_ids: ids });
  expect(many?.count).toBe(3 * WANTED);
  expect(await foldTimeline(db, { ...range, token_ids: ['missing'] })).toMatchObject({ count: 0, entries: [] });
});

describe('entries of an entity with very many', () => {
  test.each(['busy', 'retired'])('%s are more than a timeline folds by their index', async (entity_id) => {
    const range = { token_ids: [entity_id], from_id: FIRST_ID, to_id: LAST_ID };
    const db = { query: plain, tenant_id: OTHER_TENANT };
    expect(await foldTimeline(db, range)).toBeUndefined();
    expect(await findBoundary(db, range)).toMatch(/^[0-9a-f-]{36}$/);
    expect((await foldRange(db, range)).count).toBe(COUNTED_MAX + 500);
  });

  const plain: Query = async (_, text, values) => (await client.query(text, values)).rows;
  const idsOf = (entries: LogEntry[]): string[] => entries.map(({ id }) => id);
  const newestOf = async (entity_id: string, limit: number): Promise<string[]> => {
    const text = 'SELECT id FROM audit_log WHERE tenant_id = $1 AND entity_ids[1] = $2 ORDER BY id DESC LIMIT $3';
    return (await client.query(text, [OTHER_TENANT, entity_id, limit])).rows.map(({ id }) => id);
  };

  test.each(['busy', 'retired'])('%s are counted up to the cap', async (entity_id) => {
    expect(await countLogEntries({ query: plain, tenant_id: OTHER_TENANT }, { entity_id })).toEqual({
      total: COUNTED_MAX,
      capped: true,
    });
  });

  test('are listed without reading them all', async () => {
    const filter = { entity_id: 'busy' };
    const first = await listLogEntries({ query: explaining, tenant_id: OTHER_TENANT }, filter, { offset: 0 }, 21, true);
    expect(idsOf(first)).toEqual(await newestOf('busy', 21));
    const after = { id: first[20]?.id ?? '', place: 1 };
    const second = await listLogEntries({ query: explaining, tenant_id: OTHER_TENANT }, filter, { after }, 21, true);
    expect([...idsOf(first), ...idsOf(second)]).toEqual(await newestOf('busy', 42));
  });

  test('are found where many rows of others are newer', async () => {
    const filter = { entity_id: 'retired' };
    const found = await listLogEntries({ query: plain, tenant_id: OTHER_TENANT }, filter, { offset: 0 }, 21, true);
    expect(idsOf(found)).toEqual(await newestOf('retired', 21));
  });
});

test('the first page of the log is found behind many readings of the log', async () => {
  await client.query(`INSERT INTO audit_log (tenant_id, id, entity_type, entity_ids, operation, message, created_at, disclosure, mac)
    SELECT '${TENANT}', (lpad(to_hex(1810000000000 + n), 12, '0') || '70008' || substr(md5(n::text), 1, 15))::uuid, 'log',
      ARRAY['${TENANT}'], 'read', 'm', now(), 'none', gen_random_uuid() FROM generate_series(1, ${ROWS}) AS n`);
  await client.query('ANALYZE audit_log');
  expect(
    await listLogEntries({ query: explaining, tenant_id: TENANT }, { not_entity_type: 'log' }, { offset: 0 }, 21),
  ).toHaveLength(21);
});

describe('pages of the console', () => {
  type Statement = { name?: string; text: string; values?: unknown[] };

  let server: SharedConsole;
  let tenant: TestTenant;
  let member: Browser;
  let furnished: Furnished;
  beforeAll(async () => {
    server = await useConsole();
    tenant = await server.newTenant();
    furnished = await furnish(server, tenant);
    member = await server.signIn({ tenant });
  });

  /** The statements that connections of this process send meanwhile, each text once. */
  const recorded = async (work: () => Promise<unknown>): Promise<Statement[]> => {
    const found = new Map<string, Statement>();
    const { query } = Client.prototype;
    const spy = vi.spyOn(Client.prototype, 'query').mockImplementation(function (this: Client, ...given) {
      const [config] = given as unknown as [Statement | string];
      if (typeof config === 'object') found.set(config.text, config);
      return Reflect.apply(query, this, given);
    });
    await work().finally(() => spy.mockRestore());
    return [...found.values()].filter(({ text }) => /^\s*(?:SELECT|WITH|INSERT|UPDATE|DELETE)\b/i.test(text));
  };

  /** The tenant of the tables that are filled, in place of the member's. */
  const moved = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(moved);
    return typeof value === 'string' ? value.replaceAll(tenant.tenant_id, TENANT) : value;
  };

  /** A count reads what it counts, or all that the tenant has here where that is little more: never rows of another tenant. */
  const PAGE_ROWS_MAX = 1.5 * COUNTED_MAX + 2;

  /** What is wrong with the plans of a statement; undefined for nothing. */
  const faultOf = async ({ name, text, values = [] }: Statement): Promise<string | undefined> => {
    const asked: [string, unknown[]] = [text, values.map(moved)];
    const modes = name === undefined ? (['custom'] as const) : (['custom', 'generic'] as const);
    try {
      if (/\b(?:INSERT INTO|UPDATE|DELETE FROM)\b/.test(text))
        expect(wholeTables(await planOf(client, asked, 'custom', ''))).toEqual([]);
      else await expectByIndex(client, asked, modes, PAGE_ROWS_MAX);
      return undefined;
    } catch (error) {
      return `${(error as Error).message}\n${text}`;
    }
  };

  /** Pages as people leave them: filtered, searched, of another range. */
  const filteredPaths = (): string[] => [
    '/console/home?range=30d',
    '/console/usage?by=hour',
    `/console/usage?application_id=${furnished.applications}`,
    '/console/tokens?type=card',
    `/console/tokens?id=${furnished.tokens}`,
    '/console/tokens?key=note&value=Plain',
    ...['reactors', 'formulas', 'proxies', 'applications', 'webhooks'].map((kind) => `/console/${kind}?name=P*`),
    ...['outcome=any_failure', 'kind=reactor', `resource_id=${furnished.reactors}`].map(
      (query) => `/console/runs?${query}`,
    ),
    ...['outcome=refused', 'disclosure=used', 'operation=delete', 'trace_id=none', 'destination_host=none'].map(
      (query) => `/console/logs?${query}`,
    ),
    `/console/logs?entity_id=${furnished.tokens}`,
    `/console/access?permission=token:use&token_id=${furnished.tokens}&host=api.example.com`,
    ...[furnished.tokens, furnished.reactors, furnished.runs, 'Plain'].map((q) => `/console/find?q=${q}`),
  ];

  test('each page, and each search of a page, finds its rows by an index on filled tables', async () => {
    const paths = consoleRoutes(server)
      .filter(({ method }) => method === 'GET')
      .map(({ url }) => pathOf(url, furnished));
    const looks: [string, () => Promise<unknown>][] = [...paths, ...filteredPaths()].map((path) => [
      path,
      () => member.get(path),
    ]);
    const searches: [string, Record<string, string>][] = [
      ['/console/find', { q: '4242' }],
      ['/console/tokens/search', { query: 'type:card AND metadata.note:Plain' }],
      ['/console/tokens/search', { query: 'data:Plain' }],
      [`/console/reactors/${furnished.reactors}`, { do: 'pick', last4: '4242' }],
      [`/console/proxies/${furnished.proxies}`, { do: 'pick', last4: '' }],
    ];
    for (const [path, fields] of searches)
      looks.push([JSON.stringify([path, fields]), () => member.post(path, fields)]);
    const faults: Record<string, string> = {};
    const seen = new Set<string>();
    for (const [name, look] of looks)
      for (const statement of await recorded(look)) {
        if (seen.has(statement.text)) continue;
        seen.add(statement.text);
        const fault = await faultOf(statement);
        if (fault !== undefined) faults[`${name}: ${statement.name ?? ''}`] = fault;
      }
    expect(seen.size).toBeGreaterThan(50);
    expect(faults).toEqual({});
  });
});

describe('columns that are joined', () => {
  const columns: [string, string][] = [
    ['tokens.id', 'token_cvcs.id'],
    ['tokens.id', 'token_associations.parent_id'],
    ['tokens.id', 'token_associations.child_id'],
    ['applications.id', 'api_keys.application_id'],
    ['applications.id', 'reactors.application_id'],
    ['applications.id', 'proxies.application_id'],
    ['reactor_formulas.id', 'reactors.formula_id'],
    ['official_formulas.id', 'reactors.formula_id'],
    ['proxies.id', 'proxy_keys.proxy_id'],
    ['users.id', 'members.user_id'],
    ['users.id', 'memberships.user_id'],
    ['users.id', 'sessions.user_id'],
    ['users.address_digest', 'invitations.address_digest'],
    ['users.address_digest', 'members.address_digest'],
    ['members.id', 'memberships.member_id'],
    ['members.id', 'sessions.member_id'],
    ['invitations.id', 'invitation_secrets.invitation_id'],
    ['invitations.id', 'mail_outbox.invitation_id'],
    ['tenants.id', 'deleted_tenants.id'],
  ];
  const kindOf = async (name: string): Promise<unknown> => {
    const [table, column] = name.split('.');
    const { rows } = await client.query(
      `SELECT t.typname AS type, l.collname AS collation FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
       LEFT JOIN pg_collation l ON l.oid = a.attcollation WHERE a.attrelid = $1::regclass AND a.attname = $2`,
      [table, column],
    );
    expect(rows, name).toHaveLength(1);
    return rows[0];
  };

  test.each(columns)('%s and %s have one type and one collation', async (one, other) => {
    expect(await kindOf(one)).toEqual(await kindOf(other));
  });

  test('named tenant_id have one type in all tables, that of the tenant', async () => {
    const { rows } = await client.query(
      `SELECT DISTINCT t.typname AS type FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
       JOIN pg_class c ON c.oid = a.attrelid AND c.relkind = 'r' WHERE a.attname = 'tenant_id'`,
    );
    expect(rows).toEqual([{ type: 'uuid' }]);
    expect(await kindOf('tenants.id')).toMatchObject({ type: 'uuid' });
  });
});
