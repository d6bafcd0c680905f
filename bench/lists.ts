// The figures of lists on a million tokens and a million rows of the log, in several tenants: the first page against that
// of a thousand, a search of two terms against the first page, and for every filter of tokens and of the log the plan that
// PostgreSQL chooses: none may scan the rows of a tenant.
import { Client } from 'pg';
import { insertLogs } from './filled.ts';
import { type Load, runLoad } from './load.ts';
import { databaseOf, remove, startServer } from './servers.ts';
import { headersOf, median, round } from './turns.ts';
import type { TokenCondition } from '../src/modules/access/token-condition.ts';
import { countLogEntries, listLogEntries, type LogFilter } from '../src/modules/logs/rows.ts';
import { findTokenPage, listTokenRows } from '../src/modules/tokens/rows/token-list.ts';
import type { Query } from '../src/platform/db/statements.ts';

const FEW = 1_000;
const MANY = Number(process.env['BENCH_TOKENS'] ?? 1_000_000);
/** Tenants beside the measured one, and what each has of the tokens. */
const OTHERS = 3;
const OTHERS_SHARE = 0.1;
const LOG_ROWS = MANY;
const REQUEST_TOKENS = 2_000;
const CALLERS = 3;
const ROUNDS = 3;
const SECONDS = 4;
/** A page reads 20 rows, a count 10,000, and what stands beside them in an index; a plan that visits more than this is a scan. */
const ROWS_VISITED_MAX = 25_000;

const shops = 500;

/** One token in 500 is of a shop, one in 7 is open. */
const tokenOf = (index: number) => ({
  type: index % 4 === 0 ? 'social_security_number' : 'token',
  data: index % 4 === 0 ? String(100_000_000 + (index % 800_000_000)) : `value ${index}`,
  metadata: { shop: `shop-${index % shops}`, state: index % 7 === 3 ? 'open' : 'done' },
  containers: [index % 1000 === 7 ? '/rare/' : index % 2 === 0 ? '/general/even/' : '/general/odd/'],
});

export const fill = async (base_url: string, api_key: string, count: number): Promise<void> => {
  let next = 0;
  const caller = async (): Promise<void> => {
    while (next < count) {
      const from = next;
      next += REQUEST_TOKENS;
      const tokens = Array.from({ length: Math.min(REQUEST_TOKENS, count - from) }, (_, at) => tokenOf(from + at));
      const body = JSON.stringify(tokens);
      const response = await fetch(`${base_url}/tokenize`, { method: 'POST', headers: headersOf(api_key), body });
      if (!response.ok) throw new Error(`filling failed with ${response.status}`);
      await response.arrayBuffer();
      if (from % 100_000 === 0) process.stderr.write(`${from} tokens\n`);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
};

const p50 = async (loads: Record<string, Load>): Promise<Record<string, number>> => {
  const found: Record<string, number[]> = {};
  for (const load of Object.values(loads)) await runLoad({ ...load, seconds: 2 });
  for (let turn = 0; turn < ROUNDS; turn += 1)
    for (const [name, load] of Object.entries(loads)) {
      const { errors, requestsPerSecond } = await runLoad(load);
      if (errors > 0) throw new Error(`${name}: ${errors} errors`);
      // One connection, one request after another: the mean of a closed loop is finer than a histogram in whole milliseconds.
      (found[name] ??= []).push(1000 / requestsPerSecond);
    }
  return Object.fromEntries(Object.entries(found).map(([name, values]) => [name, round(median(values))]));
};

type PlanNode = {
  'Node Type': string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: PlanNode[];
};

/** Rows of tables that a plan touched, its filters' victims included. Entries that an index hands on as a bitmap are no rows yet. */
const visited = (node: PlanNode): number =>
  Math.max(
    node['Node Type'].startsWith('Bitmap Index')
      ? 0
      : (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'],
    ...(node.Plans ?? []).map(visited),
  );

/** The digest of an entry of the metadata: what tokens that have it have in common. */
const findDigest = async (client: Client, tenant_id: string, name: string, value: string): Promise<string> => {
  const { rows } = await client.query(
    `SELECT digest FROM (SELECT unnest(search_digests) AS digest FROM
      (SELECT search_digests FROM tokens WHERE tenant_id = $1 AND metadata ->> $2 = $3 LIMIT 50) AS matched) AS all_digests
    GROUP BY digest ORDER BY count(*) DESC LIMIT 1`,
    [tenant_id, name, value],
  );
  return rows[0].digest as string;
};

const explainAll = async (client: Client, tenant_id: string) => {
  const shopDigest = await findDigest(client, tenant_id, 'shop', 'shop-17');
  const openDigest = await findDigest(client, tenant_id, 'state', 'open');
  const found: Record<string, { rows: number; ms: number }> = {};
  let name = '';
  const explain: Query = async (_name, text, values) => {
    const { rows } = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, values);
    const [{ Plan: plan, 'Execution Time': ms }] = rows[0]['QUERY PLAN'];
    if (visited(plan) > ROWS_VISITED_MAX)
      throw new Error(`${name}: ${visited(plan)} rows visited\n${JSON.stringify(plan, null, 1)}`);
    found[name] = { rows: Math.max(visited(plan), found[name]?.rows ?? 0), ms: round((found[name]?.ms ?? 0) + ms) };
    return [{ count: '1', matched_count: '1', id: null }];
  };
  const shop: TokenCondition = { kind: 'digest', digest: shopDigest };
  const open: TokenCondition = { kind: 'digest', digest: openDigest };
  const since: TokenCondition = { kind: 'range', column: 'created_at', from: { at: new Date(0), inclusive: true } };
  const rare: TokenCondition = { kind: 'starts_with', column: 'container', prefix: '/rare' };
  const noUser: TokenCondition = { kind: 'in', column: 'created_by', values: ['00000000-0000-4000-8000-000000000000'] };
  const conditions: Record<string, TokenCondition | undefined> = {
    'no filter': undefined,
    id: { kind: 'in', column: 'id', values: ['one', 'two'] },
    'a frequent type': { kind: 'in', column: 'type', values: ['token'] },
    'a type that is not there': { kind: 'in', column: 'type', values: ['bank'] },
    'an entry of the metadata': shop,
    'an entry that is not there': { kind: 'digest', digest: 'none' },
    'a fingerprint': { kind: 'in', column: 'fingerprint', values: ['none'] },
    'a container': { kind: 'in', column: 'container', values: ['/rare/'] },
    'a prefix of containers': rare,
    'created by somebody': noUser,
    'modified by somebody': { ...noUser, column: 'modified_by' },
    'created since': since,
    'modified since': { ...since, column: 'modified_at' },
    'shop and state': { kind: 'and', nodes: [shop, open] },
    'state and not shop': { kind: 'and', nodes: [open, { kind: 'not', node: shop }] },
    'shop or rare': { kind: 'or', nodes: [shop, rare] },
    'a frequent container and a frequent type, never together': {
      kind: 'and',
      nodes: [
        { kind: 'starts_with', column: 'container', prefix: '/general/odd/' },
        { kind: 'in', column: 'type', values: ['social_security_number'] },
      ],
    },
  };
  for (const [each, condition] of Object.entries(conditions)) {
    name = each;
    const now = new Date();
    const page = { condition, now, start: { offset: 0 }, limit: 21 };
    await findTokenPage({ query: explain, tenant_id: tenant_id }, page);
    await listTokenRows({ query: explain, tenant_id: tenant_id }, page);
  }
  const { rows: some } = await client.query(
    'SELECT id, type, created_by FROM tokens WHERE tenant_id = $1 ORDER BY id LIMIT 1',
    [tenant_id],
  );
  const [{ id: entity_id, type: entity_type, created_by: actor_id }] = some;
  const filters: Record<string, LogFilter> = {
    everything: {},
    'an entity': { entity_id },
    'an entity of a kind': { entity_id, entity_type },
    'an entity that is not there': { entity_id: 'none' },
    'a frequent kind of entity': { entity_type: 'token' },
    'a kind that is not there': { entity_type: 'reactor' },
    'a frequent actor': { actor_id },
    'an actor that is not there': { actor_id: '00000000-0000-4000-8000-000000000000' },
    'a frequent operation': { operation: 'read' },
    'an operation that is not there': { operation: 'delete' },
    'what was refused': { outcome: 'refused' },
    'a frequent actor who was refused nothing': { actor_id, outcome: 'refused' },
  };
  for (const [each, filter] of Object.entries(filters)) {
    name = `log: ${each}`;
    await listLogEntries({ query: explain, tenant_id: tenant_id }, filter, { offset: 0 }, 21);
    await countLogEntries({ query: explain, tenant_id: tenant_id }, filter);
  }
  return found;
};

export const lists = async () => {
  const server = await startServer();
  const { base_url, api_key, tenant_id } = server.credentials;
  const client = new Client(await databaseOf(server.dataDir));
  try {
    const small = server.command(['tenants', 'create', '--name', 'Small', '--json']) as { api_key: string };
    await fill(base_url, small.api_key, FEW);
    await fill(base_url, api_key, MANY);
    for (let index = 0; index < OTHERS; index += 1) {
      const other = server.command(['tenants', 'create', '--name', `Other ${index}`, '--json']) as { api_key: string };
      await fill(base_url, other.api_key, Math.round(MANY * OTHERS_SHARE));
    }
    await client.connect();
    await insertLogs(client, LOG_ROWS);
    // Every connection of the server has this setting.
    await client.query('SET enable_seqscan = off');
    await client.query('VACUUM ANALYZE');

    const one = (path: string, key: string, body?: string): Load => ({
      url: `${base_url}${path}`,
      headers: headersOf(key),
      ...(body !== undefined && { body }),
      connections: 1,
      seconds: SECONDS,
    });
    const query = (state: string) => JSON.stringify({ query: `metadata.shop:shop-17 AND metadata.state:${state}` });
    const times = await p50({
      'list of 10^3': one('/tokens', small.api_key),
      'list of 10^6': one('/tokens', api_key),
      'search, 300 found': one('/tokens/search', api_key, query('open')),
      'search, 1700 found': one('/tokens/search', api_key, query('done')),
    });
    return {
      tokens: MANY,
      log_rows: LOG_ROWS,
      times_ms: times,
      list_ratio: round((times['list of 10^6'] as number) / (times['list of 10^3'] as number)),
      list_at_most: 2,
      search_ratio: round((times['search, 300 found'] as number) / (times['list of 10^6'] as number)),
      search_at_most: 3,
      plans: await explainAll(client, tenant_id),
    };
  } finally {
    await client.end();
    await server.stop();
    remove(server.dataDir);
  }
};
