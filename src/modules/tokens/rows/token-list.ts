// Compiles list conditions to SQL and reads pages of tokens, newest first. An index serves every leaf of a condition.
// Knows columns and digests only; read-tokens.ts translates queries and filters.
import type { StoredToken } from './token-row.ts';
import type { TenantQuery } from '../../../platform/db/database.ts';
import type { TokenCondition } from '../../access/token-condition.ts';
import { COUNTED_MAX } from '../../../platform/base/pagination.ts';
import { beginsBytewise, boundSealed, type Query } from '../../../platform/db/statements.ts';
import { TOKEN_COLUMNS } from './token-sql.ts';
import { INTENT_PATTERN } from '../../access/token-id.ts';
import type { Transaction } from '../../../platform/db/transaction.ts';

/** Start of a page: after a number of records, or after the record that a cursor names. */
type PageStart = { offset: number } | { after: { created_at: Date; id: string } };

type TokenListRequest = {
  condition: TokenCondition | undefined;
  /** Only children of this token. */
  parent_id?: string | undefined;
  now: Date;
  start: PageStart;
  limit: number;
};

class Parameters {
  readonly values: unknown[] = [];
  add(value: unknown, cast = ''): string {
    this.values.push(value);
    return `$${this.values.length}${cast}`;
  }
}

/** Ordered by bytes (COLLATE "C"). */
const bytewiseColumns = new Set(['container', 'id']);
const uuidColumns = new Set(['created_by', 'modified_by']);

const compile = (condition: TokenCondition, parameters: Parameters): string => {
  switch (condition.kind) {
    case 'and':
    case 'or':
      return `(${condition.nodes.map((node) => compile(node, parameters)).join(condition.kind === 'and' ? ' AND ' : ' OR ')})`;
    // In SQL, NULL = value is NULL, and NOT NULL is NULL: NOT must find tokens without the attribute.
    case 'not':
      return `(${compile(condition.node, parameters)} IS NOT TRUE)`;
    case 'in': {
      const { column, values } = condition;
      const type = uuidColumns.has(column) ? 'uuid' : 'text';
      // With an equality, the index returns rows in the order of the list; with `= ANY` they would be sorted.
      if (values.length === 1) return `t.${column} = ${parameters.add(values[0], `::${type}`)}`;
      return `t.${column} = ANY(${parameters.add(values, `::${type}[]`)})`;
    }
    case 'starts_with': {
      const column = `t.${condition.column}`;
      const like = `${column} LIKE ${parameters.add(`${condition.prefix.replace(/[\\%_]/g, '\\$&')}%`)}`;
      if (!bytewiseColumns.has(condition.column)) return like;
      return `(${like} AND ${beginsBytewise(column, condition.prefix, (value) => parameters.add(value))})`;
    }
    case 'unmasked':
      return "(t.type = 'token' AND NOT t.masked)";
    case 'readable':
      return "(t.bound_to IS NULL OR NOT t.bound_to ?| '{hosts,proxies,reactors}')";
    case 'nothing':
      return 'false';
    case 'digest':
      return `(t.search_digests @> ARRAY[${parameters.add(condition.digest, '::text')}] AND t.search_digests IS NOT NULL)`;
    case 'range': {
      const column = `t.${condition.column}`;
      const bounds = [
        condition.from && `${column} ${condition.from.inclusive ? '>=' : '>'} ${parameters.add(condition.from.at)}`,
        condition.to && `${column} ${condition.to.inclusive ? '<=' : '<'} ${parameters.add(condition.to.at)}`,
      ].filter((bound) => bound !== undefined);
      return bounds.length === 0 ? `${column} IS NOT NULL` : `(${bounds.join(' AND ')})`;
    }
  }
};

/** The FROM and WHERE of a list. Its order is by `time` and `id`. */
const scopeOf = (tenant_id: string, request: Pick<TokenListRequest, 'condition' | 'parent_id' | 'now'>) => {
  const parameters = new Parameters();
  const tenant = parameters.add(tenant_id, '::uuid');
  const linked = request.parent_id !== undefined;
  const from = linked
    ? 'token_associations a JOIN tokens t ON t.tenant_id = a.tenant_id AND t.id = a.child_id'
    : 'tokens t';
  const where = linked
    ? [`a.tenant_id = ${tenant}`, `a.parent_id = ${parameters.add(request.parent_id)}`]
    : [`t.tenant_id = ${tenant}`];
  where.push(`(t.expires_at IS NULL OR t.expires_at > ${parameters.add(request.now)})`);
  if (request.condition) where.push(compile(request.condition, parameters));
  const [time, id] = linked ? ['a.child_created_at', 'a.child_id'] : ['t.created_at', 't.id'];
  return { parameters, from, where, time, id };
};

const columns = TOKEN_COLUMNS.replace(/\b(?=[a-z])/g, 't.');

/** One page, ordered by time of creation, newest first, then by id. */
export const listTokenRows = async (
  { query, tenant_id }: TenantQuery,
  request: TokenListRequest,
): Promise<StoredToken[]> => {
  const { parameters, from, where, time, id } = scopeOf(tenant_id, request);
  let offset = '';
  if ('offset' in request.start) offset = `OFFSET ${parameters.add(request.start.offset)}`;
  else {
    const at = parameters.add(request.start.after.created_at);
    where.push(`${time} <= ${at} AND (${time} < ${at} OR ${id} > ${parameters.add(request.start.after.id)})`);
  }
  const rows = `SELECT ${columns} FROM ${from} WHERE ${where.join(' AND ')}
ORDER BY ${time} DESC, ${id} LIMIT ${parameters.add(request.limit)} ${offset}`;
  const text = `${boundSealed(TOKEN_COLUMNS, rows)} ORDER BY created_at DESC, id`;
  return (await query(undefined, text, parameters.values)) as StoredToken[];
};

/** A token that its transaction has locked, to delete it. */
export type LockedToken = Pick<StoredToken, 'id' | 'type' | 'container' | 'created_at' | 'modified_at'>;

type Selection = { condition: TokenCondition; now: Date; limit: number };

/** How many tokens a condition selects, up to a limit. */
export const countSelected = async ({ query, tenant_id }: TenantQuery, selection: Selection): Promise<number> => {
  const { parameters, from, where } = scopeOf(tenant_id, selection);
  const text = `SELECT count(*)::int AS count FROM (
SELECT FROM ${from} WHERE ${where.join(' AND ')} LIMIT ${parameters.add(selection.limit)}) AS selected`;
  const [{ count }] = (await query(undefined, text, parameters.values)) as [{ count: number }];
  return count;
};

/** Locks what a condition selects until the transaction ends, in the order of ids: two of these wait for each other. */
export const lockTokens = async ({ query, tenant_id }: TenantQuery, selection: Selection): Promise<LockedToken[]> => {
  const { parameters, from, where } = scopeOf(tenant_id, selection);
  const text = `SELECT t.id, t.type, t.container, t.created_at, t.modified_at FROM ${from} WHERE ${where.join(' AND ')}
ORDER BY t.id LIMIT ${parameters.add(selection.limit)} FOR UPDATE`;
  return (await query(undefined, text, parameters.values)) as LockedToken[];
};

const COUNT_ALL = `
SELECT (SELECT coalesce(sum(change), 0) FROM token_counts
        WHERE tenant_id = $1 AND ($2::text[] IS NULL OR type = ANY($2)))
     - (SELECT count(*) FROM tokens
        WHERE tenant_id = $1 AND ($2::text[] IS NULL OR type = ANY($2)) AND expires_at <= $3) AS count`;

/** The types that a condition selects by, if it has no other term. Tokens are counted by type as they are written. */
const typesOf = (condition: TokenCondition | undefined): string[] | null | undefined => {
  if (condition === undefined) return null;
  return condition.kind === 'in' && condition.column === 'type' ? condition.values : undefined;
};

/** A page by number, with the total: exact for all tokens and for types, up to COUNTED_MAX for other conditions. */
export const findTokenPage = async (
  { query, tenant_id }: TenantQuery,
  request: TokenListRequest & { start: { offset: number } },
): Promise<{ rows: StoredToken[]; total: number; capped: boolean }> => {
  const types = request.parent_id === undefined ? typesOf(request.condition) : undefined;
  if (types !== undefined) {
    const [{ count }] = (await query('count-tokens', COUNT_ALL, [tenant_id, types, request.now])) as [
      { count: string },
    ];
    const total = Number(count);
    return {
      rows: request.start.offset < total ? await listTokenRows({ query, tenant_id }, request) : [],
      total,
      capped: false,
    };
  }
  // One scan serves the count and the page. Only where there are too many rows to count is the page read separately.
  const { parameters, from, where, time, id } = scopeOf(tenant_id, request);
  const page = `SELECT found.* FROM (SELECT id FROM matched ORDER BY time DESC, id
  LIMIT ${parameters.add(request.limit)} OFFSET ${parameters.add(request.start.offset)}) AS page
CROSS JOIN LATERAL (SELECT ${TOKEN_COLUMNS} FROM tokens WHERE tenant_id = $1 AND id = page.id LIMIT 1) AS found`;
  const text = `
WITH matched AS MATERIALIZED (
  SELECT ${time} AS time, ${id} AS id FROM ${from} WHERE ${where.join(' AND ')} LIMIT ${COUNTED_MAX + 1}
)
SELECT rows.*, counted.count AS matched_count FROM (SELECT count(*) FROM matched) AS counted
LEFT JOIN (${boundSealed(TOKEN_COLUMNS, page)}) AS rows ON true ORDER BY rows.created_at DESC, rows.id`;
  const found = (await query(undefined, text, parameters.values)) as (StoredToken & { matched_count: string })[];
  const counted = Number(found[0]?.matched_count);
  if (counted > COUNTED_MAX)
    return { rows: await listTokenRows({ query, tenant_id }, request), total: COUNTED_MAX, capped: true };
  // An empty page comes as one row that has only the count.
  return { rows: found.filter((row) => row.id !== null), total: counted, capped: false };
};

// Reads tokens in the order of their ids: those whose search digests are due, and all tokens of a tenant for an export.

// Tokens whose search digests are due, of all tenants, and the digests that are made of them.

/** Tokens of one step: to evaluate their expressions takes some milliseconds for a hundred. */
export const DIGESTS_DUE_MAX = 200;

/** $1: tenants that are left out. */
const FIND_TOKENS_DUE = `
SELECT tenant_id, id FROM tokens WHERE digests_due AND tenant_id <> ALL ($1::uuid[]) ORDER BY tenant_id, id LIMIT ${DIGESTS_DUE_MAX}`;

/** Locks tokens of one tenant, as all such statements do. A token that is being changed is left: the change makes its digests. */
const LOCK_TOKENS_DUE = boundSealed(
  TOKEN_COLUMNS,
  `SELECT ${TOKEN_COLUMNS} FROM tokens WHERE tenant_id = $1 AND id = ANY ($2::text[]) AND digests_due
ORDER BY id FOR NO KEY UPDATE SKIP LOCKED`,
);

/** $3: whether the token gets new digests. */
const WRITE_DIGESTS = `
UPDATE tokens SET digests_due = false, search_digests = CASE WHEN $3::boolean THEN $4::text[] ELSE search_digests END
WHERE tenant_id = $1 AND id = $2`;

export const findTokensDue = async (
  query: Query,
  without: readonly string[],
): Promise<{ tenant_id: string; id: string }[]> =>
  (await query('find-tokens-due', FIND_TOKENS_DUE, [without])) as { tenant_id: string; id: string }[];

export const lockTokensDue = async (query: Query, tenant_id: string, ids: readonly string[]): Promise<StoredToken[]> =>
  (await query('lock-tokens-due', LOCK_TOKENS_DUE, [tenant_id, ids])) as StoredToken[];

/** @param made undefined for a token that keeps its digests. */
export const writeDigests = async (
  query: Query,
  tenant_id: string,
  id: string,
  made: { digests: string[] | undefined } | undefined,
): Promise<void> => {
  await query('write-digests', WRITE_DIGESTS, [tenant_id, id, made !== undefined, made?.digests ?? null]);
};

// Statements of the export: a snapshot, and pages of whole tokens in the order of ids.

/** Tokens of one statement. Large tokens end a page earlier, see boundSealed. */
const PAGE_ROWS = 500;

/** Without intents: they end within a day, and no import takes them. */
const FIND_PAGE = `${boundSealed(
  TOKEN_COLUMNS,
  `SELECT ${TOKEN_COLUMNS} FROM tokens
WHERE tenant_id = $1 AND id > $2 AND (expires_at IS NULL OR expires_at > $3) AND id NOT LIKE '${INTENT_PATTERN}' ORDER BY id LIMIT ${PAGE_ROWS}`,
)} ORDER BY id`;

/** All further statements of the transaction see the rows of this moment. Must be its first statement. */
export const takeSnapshot = async ({ query }: Transaction): Promise<void> => {
  await query(undefined, 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY', []);
};

/** The next tokens after an id, all with their sealed values. Empty after the last. */
export const findExportPage = async ({ query, tenant_id }: Transaction, after: string, now: Date) => {
  const rows = (await query('find-export-page', FIND_PAGE, [tenant_id, after, now])) as StoredToken[];
  // Beyond the limit of bytes rows come without values: the next page begins with the first of them.
  const end = rows.findIndex(({ sealed }) => sealed === null);
  return end === -1 ? rows : rows.slice(0, end);
};
