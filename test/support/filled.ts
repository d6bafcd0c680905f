// A database with filled tables, and the plans that PostgreSQL makes there. Empty tables would hide an index that cannot be used.
import { Client, escapeLiteral } from 'pg';
import { expect } from 'vitest';
import { ALL_APPLICATIONS } from '../../src/modules/access/rows/usage.ts';
import { COUNTED_MAX } from '../../src/platform/base/pagination.ts';
import { createDatabase } from './database.ts';

export const ROWS = 10_000;
/** Ids that one statement asks for. */
export const WANTED = 100;
/** Rows that one statement may look at, of tables and of indexes: a fifth of what it would read of one table as a whole. */
const ROWS_READ_MAX = 2_000;

export const TENANT = '00000000-0000-4000-8000-000000000001';
export const OTHER_TENANT = '00000000-0000-4000-8000-000000000002';
export const ACTOR = '00000000-0000-4000-8000-000000000003';
export const RARE_ACTOR = '00000000-0000-4000-8000-000000000004';
export const LAST_ID = 'ffffffff-ffff-7000-8000-000000000000';
export const FIRST_ID = '01890000-0000-7000-8000-000000000000';

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
INSERT INTO reactors (tenant_id, id, name, search_name, formula_id, sealed, created_at)
  SELECT tenant_id, id, name, search_name, id, sealed, created_at FROM reactor_formulas;
INSERT INTO proxies (tenant_id, id, name, search_name, require_auth, sealed, created_at)
  SELECT tenant_id, id, name, search_name, true, sealed, created_at FROM reactor_formulas;
INSERT INTO proxy_keys (digest, tenant_id, proxy_id) SELECT decode(md5(id::text), 'hex'), tenant_id, id FROM proxies;
INSERT INTO webhooks (tenant_id, id, name, search_name, events, sealed, created_at)
  SELECT tenant_id, id, name, search_name, '{*}', sealed, created_at FROM reactor_formulas;
INSERT INTO code_versions (tenant_id, id, resource_type, resource_id, number, sealed, created_at)
  SELECT tenant_id, id, 'reactor_formula', id, 1, sealed, created_at FROM reactor_formulas;
INSERT INTO users (id, address_digest, password_hash, created_at)
  SELECT id, decode(md5(id::text), 'hex'), 'x', created_at FROM reactor_formulas;
INSERT INTO members (tenant_id, id, user_id, role, address_digest, sealed, created_at)
  SELECT tenant_id, id, id, 'ADMIN', decode(md5(id::text), 'hex'), sealed, created_at FROM reactor_formulas;
INSERT INTO memberships (user_id, tenant_id, member_id) SELECT user_id, tenant_id, id FROM members;
INSERT INTO invitations (tenant_id, id, role, address_digest, sealed, expires_at, created_at)
  SELECT tenant_id, id, role, address_digest, sealed, created_at + interval '3 days', created_at FROM members;
INSERT INTO sessions (digest, tenant_id, member_id, user_id, created_at, seen_at, expires_at)
  SELECT address_digest, tenant_id, id, user_id, created_at, created_at, now() + interval '1 hour' FROM members;
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

/** Of a connection as every one of the server is. */
export const openFilled = async (): Promise<{ client: Client; close(): Promise<void> }> => {
  const database = await createDatabase();
  const client = new Client(database.address);
  await client.connect();
  await client.query(FILL);
  await client.query('SET enable_seqscan = off');
  return { client, close: () => client.end().then(database.drop) };
};

export type Node = Record<string, unknown> & { Plans?: Node[] };

export const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)];

export const literal = (value: unknown): string => {
  if (value === null || value === undefined) return 'NULL';
  if (typeof value === 'number') return String(value);
  if (value instanceof Date) return escapeLiteral(value.toISOString());
  if (Buffer.isBuffer(value)) return escapeLiteral(`\\x${value.toString('hex')}`);
  if (Array.isArray(value)) return escapeLiteral(`{${value.map((item) => JSON.stringify(item)).join()}}`);
  return escapeLiteral(String(value));
};

type Mode = 'custom' | 'generic';

/**
 * The plan of a statement as it is made for its parameters or for any. What it wrote is undone.
 * @param options what EXPLAIN does beside: it runs the statement, unless they say otherwise.
 */
export const planOf = async (
  client: Client,
  [text, values]: [text: string, values: unknown[]],
  mode: Mode,
  options = 'ANALYZE, BUFFERS,',
): Promise<Node> => {
  await client.query('BEGIN');
  try {
    await client.query(`SET LOCAL plan_cache_mode = force_${mode}_plan`);
    await client.query(`PREPARE planned AS ${text}`);
    const execute = values.length === 0 ? 'planned' : `planned(${values.map(literal).join(', ')})`;
    const { rows } = await client.query(`EXPLAIN (${options} FORMAT JSON) EXECUTE ${execute}`);
    return rows[0]['QUERY PLAN'][0].Plan;
  } finally {
    await client.query('ROLLBACK');
    await client.query('DEALLOCATE ALL');
  }
};

export const number = (node: Node, name: string): number => Number(node[name] ?? 0);

/** Of a scan: what it found and what it looked at in vain. */
const rowsRead = (node: Node): number =>
  number(node, 'Actual Loops') *
  (number(node, 'Actual Rows') +
    number(node, 'Rows Removed by Filter') +
    number(node, 'Rows Removed by Index Recheck'));

const scansIn = (nodes: readonly Node[]): Node[] =>
  nodes.filter((node) => node['Relation Name'] !== undefined && node['Node Type'] !== 'ModifyTable');

/** Tables that a plan reads as a whole. The operator installs a few official formulas: those may be. */
export const wholeTables = (plan: Node): unknown[] =>
  scansIn(nodesOf(plan))
    .filter((node) => node['Node Type'] === 'Seq Scan')
    .map((node) => node['Relation Name'])
    .filter((name) => name !== 'official_formulas');

export const expectByIndex = async (
  client: Client,
  statement: [text: string, values: unknown[]],
  modes: readonly Mode[] = ['custom', 'generic'],
  rowsMax = ROWS_READ_MAX,
): Promise<void> => {
  for (const mode of modes) {
    const plan = await planOf(client, statement, mode);
    expect(wholeTables(plan)).toEqual([]);
    const nodes = nodesOf(plan);
    for (const node of [...scansIn(nodes), ...nodes.filter(({ 'Node Type': type }) => type === 'Bitmap Index Scan')])
      expect(
        rowsRead(node),
        `${mode} plan, ${node['Node Type']} of ${node['Relation Name'] ?? node['Index Name']}`,
      ).toBeLessThan(rowsMax);
  }
};
