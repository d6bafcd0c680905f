// Query plans of hot statements and lists on filled tables: none reads a whole table.
// Joined columns have one type and one collation. Empty tables would hide an index that cannot be used.
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { countLogEntries, type LogEntry, type LogFilter, listLogEntries } from '../src/modules/logs/rows.ts';
import {
  countRevealed,
  countUnknownForwards,
  countWaitingInvitations,
  findKeysToWatch,
  findStepsDone,
} from '../src/modules/console/home-rows.ts';
import { findUserOfMember, listSessionsOfMember } from '../src/modules/console/member-rows.ts';
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
import { ADD_USAGE, ALL_APPLICATIONS, findUsage, LATENCY_BOUNDS_MS } from '../src/modules/access/rows/usage.ts';
import { countFormulas, findFormulas, listFormulas } from '../src/modules/code/rows/formulas.ts';
import type { Query } from '../src/platform/db/statements.ts';
import type { TokenCondition } from '../src/modules/access/token-condition.ts';
import { FIND_LAST_USES, WRITE_KEY_USES } from '../src/modules/access/rows/key-uses.ts';
import { COUNT_DAILY_TOKENS, FIND_ARRIVAL, TAKE_REQUEST } from '../src/modules/access/rows/limits.ts';
import { FIND_API_KEY } from '../src/modules/access/rows/api-keys.ts';
import { FIND_SESSION } from '../src/modules/access/rows/find-session.ts';
import { findBoundary, foldRange, foldTimeline } from '../src/modules/tokens/rows/timeline-rows.ts';
import { DIGESTS_DUE_MAX, findTokensDue } from '../src/modules/tokens/rows/token-scans.ts';
import { findTokenPage, listTokenRows } from '../src/modules/tokens/rows/token-list.ts';
import { INSERT_LOGS, INSERT_LOGS_AND_RUNS, INSERT_REFUSAL } from '../src/platform/db/audit-rows.ts';
import { INSERT_RUNS } from '../src/platform/db/run-rows.ts';
import { FIND_EPHEMERAL_KEYS } from '../src/platform/keys/rows.ts';
import { firstIdAt, timeOfId } from '../src/platform/crypto/ids.ts';
import { COUNTED_MAX } from '../src/platform/base/pagination.ts';
import * as tokenTexts from '../src/modules/tokens/rows/token-sql.ts';
import { createDatabase, type TestDatabase } from './support/database.ts';

const ROWS = 10_000;
/** Ids that one statement asks for. */
const WANTED = 100;
/** Rows that one statement may look at, of tables and of indexes: a fifth of what it would read of one table as a whole. */
const ROWS_READ_MAX = 2_000;
/** Blocks that a call of a function may look at: one row in each of four tables, with all indexes. */
const FUNCTION_BLOCKS_MAX = 400;

const TENANT = '00000000-0000-4000-8000-000000000001';
const OTHER_TENANT = '00000000-0000-4000-8000-000000000002';
const ACTOR = '00000000-0000-4000-8000-000000000003';
const RARE_ACTOR = '00000000-0000-4000-8000-000000000004';
const LAST_ID = 'ffffffff-ffff-7000-8000-000000000000';
const FIRST_ID = '01890000-0000-7000-8000-000000000000';

/** Two tenants with half of the rows each, of two types in two containers; among them a few rows that lists look for. */
const FILL = `
INSERT INTO tenants (id, name) VALUES ('${TENANT}', 'One'), ('${OTHER_TENANT}', 'Other');
INSERT INTO applications (tenant_id, id, name, search_name, type, permissions)
  SELECT '${TENANT}', gen_random_uuid(), 'Application', 'application', 'private', ARRAY['token:read'] FROM generate_series(1, ${ROWS});
INSERT INTO api_keys (public_id, tenant_id, application_id, digest)
  SELECT 'key-' || row_number() OVER (), tenant_id, id, 'x' FROM applications;
INSERT INTO tokens (tenant_id, id, type, sealed, fingerprint, fingerprint_expression, container, metadata, search_digests,
    created_at, created_by, modified_at, modified_by, masked)
  SELECT CASE WHEN n % 2 = 0 THEN '${TENANT}' ELSE '${OTHER_TENANT}' END::uuid, md5(n::text),
    CASE WHEN n % 10 < 8 THEN 'card' ELSE 'token' END, decode(repeat('00', 200), 'hex'), 'print-' || n, '{{ data }}',
    CASE WHEN n % 10 < 8 THEN '/pci/high/' ELSE '/general/high/' END, '{"order": "1"}',
    ARRAY['digest-' || n / 4, 'digest-of-all'], now() - n * interval '1 second', '${ACTOR}',
    now() - n * interval '1 second', '${ACTOR}', n % 10 < 8
  FROM generate_series(1, ${ROWS}) AS n;
INSERT INTO token_cvcs (tenant_id, id, sealed, expires_at)
  SELECT tenant_id, id, 'x', now() + interval '1 hour' FROM tokens;
INSERT INTO ephemeral_keys (id, wrapped, destroy_at)
  SELECT id, 'x', now() + interval '1 hour' FROM tokens;
INSERT INTO token_associations (tenant_id, parent_id, child_id, child_created_at, created_at)
  SELECT one.tenant_id, one.id, other.id, other.created_at, now()
  FROM tokens AS one JOIN tokens AS other ON other.tenant_id = one.tenant_id AND other.created_at = one.created_at - interval '2 seconds';
INSERT INTO reactor_formulas (tenant_id, id, name, search_name, sealed, configuration, request_parameters, created_at)
  SELECT tenant_id, md5(id)::uuid, id, id, sealed, '[]', '[]', created_at FROM tokens;
INSERT INTO official_formulas (id, name, search_name, status, code, configuration, request_parameters, created_at)
  SELECT gen_random_uuid(), 'Official ' || n, 'official ' || n, 'verified', 'x', '[]', '[]', now() FROM generate_series(1, 4) AS n;
INSERT INTO daily_budgets (tenant_id, id, application_id, limit_name, day, counted, expires_at)
  SELECT tenant_id, id, CASE WHEN row_number() OVER () = 1 THEN '${ACTOR}' ELSE id END, 'daily_reveals', '2031-05-05', ${ROWS}, now()
  FROM applications;
INSERT INTO daily_tokens (tenant_id, budget_id, token_id)
  SELECT b.tenant_id, b.id, t.id FROM daily_budgets b, tokens t WHERE b.application_id = '${ACTOR}';
INSERT INTO request_rates (tenant_id, id, arrival_us) SELECT tenant_id, application_id, 1 FROM daily_budgets;
INSERT INTO token_counts (tenant_id, id, type, change) SELECT tenant_id, gen_random_uuid(), type, 1 FROM tokens LIMIT 50;
INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at, disclosure, outcome,
    trace_id, application_id, destination_host, mac)
  SELECT tenant_id, (lpad(to_hex(1790000000000 + n), 12, '0') || '70008' || substr(md5(n::text), 1, 15))::uuid,
    CASE WHEN n % 1000 = 0 THEN '${RARE_ACTOR}' ELSE '${ACTOR}' END::uuid, 'application', type, ARRAY[id],
    CASE WHEN n % 1000 = 1 THEN 'delete' ELSE 'read' END, 'm', now(), CASE WHEN n % 1000 = 3 THEN 'revealed' ELSE 'none' END,
    CASE WHEN n % 1000 = 2 THEN 'refused' ELSE 'success' END, 'trace-' || n,
    CASE WHEN n % 1000 = 0 THEN '${RARE_ACTOR}' ELSE '${ACTOR}' END::uuid,
    CASE WHEN n % 1000 = 4 THEN 'rare.example.com' ELSE 'api.example.com' END, gen_random_uuid()
  FROM (SELECT *, row_number() OVER (ORDER BY created_at) AS n FROM tokens, generate_series(1, 3)) AS t;
INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at, disclosure, mac)
  SELECT '${OTHER_TENANT}', (lpad(to_hex(at + n), 12, '0') || '70008' || substr(md5(n::text), 1, 15))::uuid, '${ACTOR}',
    'application', 'reactor', ARRAY[entity], 'use', 'm', now(), 'none', gen_random_uuid()
  FROM (VALUES ('retired', 1780000000000), ('busy', 1800000000000)) AS of(entity, at),
    generate_series(1, ${COUNTED_MAX + 500}) AS n;
INSERT INTO runs (tenant_id, id, kind, resource_id, actor_id, outcome, destination_status, mac)
  SELECT tenant_id, id, CASE WHEN n % 1000 = 1 THEN 'transform' ELSE 'proxy' END,
    CASE WHEN n % 1000 = 1 THEN '${RARE_ACTOR}' ELSE '${ACTOR}' END::uuid, actor_id,
    CASE WHEN n % 1000 = 2 THEN 'crashed' ELSE 'success' END,
    CASE WHEN n % 1000 = 2 THEN 503 WHEN n % 1000 = 3 THEN 404 WHEN n % 1000 = 4 THEN 201 ELSE 200 END, id
  FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM audit_log) AS l;
INSERT INTO forwards (tenant_id, id, state, actor_id, actor_type, proxy_id, method, destination_host, path_digest, token_ids)
  SELECT tenant_id, id, CASE WHEN n % 1000 = 1 THEN 'unknown' ELSE 'answered' END, actor_id, 'application',
    CASE WHEN n % 1000 = 2 THEN '${RARE_ACTOR}' ELSE '${ACTOR}' END::uuid, 'POST', 'api.example.com', 'x', '{}'
  FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM runs) AS r;
INSERT INTO begun_runs (tenant_id, id, run, mac) SELECT tenant_id, id, '{}', id FROM runs;
INSERT INTO usage_hours (tenant_id, hour, kind, application_id, requests, tokens, ms_5, ms_10, ms_25, ms_50, ms_100, ms_250,
    ms_500, ms_1000, ms_2500, ms_5000, ms_10000, ms_more)
  SELECT tenant_id, date_trunc('hour', now()) - n * interval '1 hour', 'used', application_id,
    1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  FROM (SELECT '${TENANT}'::uuid AS tenant_id UNION ALL SELECT gen_random_uuid() FROM generate_series(1, 9)) AS t,
    generate_series(1, ${ROWS / 10}) AS n, unnest(ARRAY['${ACTOR}', '${ALL_APPLICATIONS}']::uuid[]) AS application_id;
ANALYZE`;

let database: TestDatabase;
let client: Client;
let ids: string[];
let prints: string[];

beforeAll(async () => {
  database = await createDatabase();
  client = new Client(database.address);
  await client.connect();
  await client.query(FILL);
  // As every connection of the server is.
  await client.query('SET enable_seqscan = off');
  const text = 'SELECT id, fingerprint FROM tokens WHERE tenant_id = $1 ORDER BY id LIMIT $2';
  const { rows } = await client.query(text, [TENANT, WANTED]);
  ids = rows.map(({ id }) => id);
  prints = rows.map(({ fingerprint }) => fingerprint);
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

type Node = Record<string, unknown> & { Plans?: Node[] };

const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)];

const literal = (value: unknown): string => {
  if (value === null || value === undefined) return 'NULL';
  if (typeof value === 'number') return String(value);
  if (value instanceof Date) return client.escapeLiteral(value.toISOString());
  if (Array.isArray(value)) return client.escapeLiteral(`{${value.map((item) => JSON.stringify(item)).join()}}`);
  return client.escapeLiteral(String(value));
};

/** The plan of a statement, after it ran, as it is made for its parameters or for any. What it wrote is undone. */
const planOf = async (text: string, values: unknown[], mode: 'custom' | 'generic'): Promise<Node> => {
  await client.query('BEGIN');
  try {
    await client.query(`SET LOCAL plan_cache_mode = force_${mode}_plan`);
    await client.query(`PREPARE planned AS ${text}`);
    const execute = values.length === 0 ? 'planned' : `planned(${values.map(literal).join(', ')})`;
    const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE ${execute}`);
    return rows[0]['QUERY PLAN'][0].Plan;
  } finally {
    await client.query('ROLLBACK');
    await client.query('DEALLOCATE ALL');
  }
};

const number = (node: Node, name: string): number => Number(node[name] ?? 0);

/** Of a scan: what it found and what it looked at in vain. */
const rowsRead = (node: Node): number =>
  number(node, 'Actual Loops') *
  (number(node, 'Actual Rows') +
    number(node, 'Rows Removed by Filter') +
    number(node, 'Rows Removed by Index Recheck'));

const expectByIndex = async (
  text: string,
  values: unknown[],
  modes: ('custom' | 'generic')[] = ['custom', 'generic'],
): Promise<void> => {
  for (const mode of modes) {
    const nodes = nodesOf(await planOf(text, values, mode));
    const scans = nodes.filter((node) => node['Relation Name'] !== undefined && node['Node Type'] !== 'ModifyTable');
    const whole = scans.filter((node) => node['Node Type'] === 'Seq Scan').map((node) => node['Relation Name']);
    // The operator installs a few: the table is read as a whole.
    expect(whole.filter((name) => name !== 'official_formulas')).toEqual([]);
    for (const node of [...scans, ...nodes.filter(({ 'Node Type': type }) => type === 'Bitmap Index Scan')])
      expect(
        rowsRead(node),
        `${mode} plan, ${node['Node Type']} of ${node['Relation Name'] ?? node['Index Name']}`,
      ).toBeLessThan(ROWS_READ_MAX);
  }
};

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
    async (name, values) => expectByIndex(textOf.get(name) ?? '', values()),
  );

  test('INSERT_UNIQUE_TOKENS, of a token that is new and of one that is there', async () => {
    for (const [fingerprint, id] of [
      ['print-new', 'new-token'],
      [prints[0], 'another-token'],
    ] as const) {
      const row = { ...tokenRow(id), fingerprint, seen: ['%'], actor_type: 'application', message: 'm' };
      const plan = await planOf(texts.INSERT_UNIQUE_TOKENS, [TENANT, JSON.stringify([row])], 'generic');
      expect(number(plan, 'Shared Hit Blocks') + number(plan, 'Shared Read Blocks')).toBeLessThan(FUNCTION_BLOCKS_MAX);
    }
  });

  test('COUNT_DAILY_TOKENS, of a token that is new and of ones that are counted', async () => {
    for (const wanted of [['new-token'], [ids[0], ids[1]]]) {
      const values = [TENANT, ACTOR, 'daily_reveals', '2031-05-05', wanted, ROWS * 2, FIRST_ID, now];
      const plan = await planOf(texts.COUNT_DAILY_TOKENS, values, 'generic');
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
  await expectByIndex(text, values, name === undefined ? ['custom'] : ['custom', 'generic']);
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
