// Lists of tokens: a condition as a tree, compiled to SQL whose every leaf an index can serve, one page at a time, newest
// first. Knows columns and digests; what a query language or a filter of the wire means is the vault's affair.
import type { Query } from './statements.ts';
import type { StoredToken } from './hot.ts';
import { boundSealed, TOKEN_COLUMNS } from './token-sql.ts';

/** Which tokens. Values are parameters, never text of the statement. */
export type TokenCondition =
  | { kind: 'and' | 'or'; nodes: TokenCondition[] }
  | { kind: 'not'; node: TokenCondition }
  | { kind: 'in'; column: 'id' | 'type' | 'fingerprint' | 'container' | 'created_by' | 'modified_by'; values: string[] }
  | { kind: 'starts_with'; column: 'id' | 'container'; prefix: string }
  /** Without a mask, of its own or of its type. */
  | { kind: 'unmasked' }
  | { kind: 'nothing' }
  /** One of the keyed digests that the token can be found by. */
  | { kind: 'digest'; digest: string }
  | { kind: 'range'; column: 'created_at' | 'modified_at'; from?: Bound | undefined; to?: Bound | undefined };

type Bound = { at: Date; inclusive: boolean };

/** Where a page begins: after so many records, or after the one that a cursor names. */
export type PageStart = { offset: number } | { after: { created_at: Date; id: string } };

export type TokenListRequest = {
  condition: TokenCondition | undefined;
  /** Only children of this token. */
  parent_id?: string | undefined;
  now: Date;
  start: PageStart;
  limit: number;
};

/** Matches are counted up to here: an exact count of millions would cost more than the page. */
export const COUNTED_MAX = 10_000;

class Parameters {
  readonly values: unknown[] = [];
  add(value: unknown, cast = ''): string {
    this.values.push(value);
    return `$${this.values.length}${cast}`;
  }
}

const uuidColumns = new Set(['created_by', 'modified_by']);

const compile = (condition: TokenCondition, parameters: Parameters): string => {
  switch (condition.kind) {
    case 'and':
    case 'or':
      return `(${condition.nodes.map((node) => compile(node, parameters)).join(condition.kind === 'and' ? ' AND ' : ' OR ')})`;
    // What is absent is not equal to anything: NOT finds it.
    case 'not':
      return `(${compile(condition.node, parameters)} IS NOT TRUE)`;
    case 'in': {
      const { column, values } = condition;
      const type = uuidColumns.has(column) ? 'uuid' : 'text';
      // One value as an equality: its rows come out of the index in the order of the list.
      if (values.length === 1) return `t.${column} = ${parameters.add(values[0], `::${type}`)}`;
      return `t.${column} = ANY(${parameters.add(values, `::${type}[]`)})`;
    }
    case 'starts_with':
      return `t.${condition.column} LIKE ${parameters.add(`${condition.prefix.replace(/[\\%_]/g, '\\$&')}%`)}`;
    case 'unmasked':
      // NULL until the server has looked into a row of an earlier version: it may have a mask.
      return "(t.type = 'token' AND t.masked IS FALSE)";
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

/** The tokens in question, in the words of a FROM and a WHERE. `time` and `id` are what the list is ordered by. */
const scopeOf = (tenantId: string, request: Pick<TokenListRequest, 'condition' | 'parent_id' | 'now'>) => {
  const parameters = new Parameters();
  const tenant = parameters.add(tenantId, '::uuid');
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

/** One page, newest first, then by id. */
export const listTokens = async (query: Query, tenantId: string, request: TokenListRequest): Promise<StoredToken[]> => {
  const { parameters, from, where, time, id } = scopeOf(tenantId, request);
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

const COUNT_ALL = `
SELECT (SELECT coalesce(sum(change), 0) FROM token_counts
        WHERE tenant_id = $1 AND ($2::text[] IS NULL OR type = ANY($2)))
     - (SELECT count(*) FROM tokens
        WHERE tenant_id = $1 AND ($2::text[] IS NULL OR type = ANY($2)) AND expires_at <= $3) AS count`;

/** Which types a condition asks for and nothing else: those are counted as they are written. */
const typesOf = (condition: TokenCondition | undefined): string[] | null | undefined => {
  if (condition === undefined) return null;
  return condition.kind === 'in' && condition.column === 'type' ? condition.values : undefined;
};

/** A page by number, with how many there are: exact for all tokens and for types, up to COUNTED_MAX for everything else. */
export const findTokenPage = async (
  query: Query,
  tenantId: string,
  request: TokenListRequest & { start: { offset: number } },
): Promise<{ rows: StoredToken[]; total: number; capped: boolean }> => {
  const types = request.parent_id === undefined ? typesOf(request.condition) : undefined;
  if (types !== undefined) {
    const [{ count }] = (await query('count-tokens', COUNT_ALL, [tenantId, types, request.now])) as [{ count: string }];
    const total = Number(count);
    return {
      rows: request.start.offset < total ? await listTokens(query, tenantId, request) : [],
      total,
      capped: false,
    };
  }
  // What matches is found once, for the count and for the page; only where it is too much to count, the page is found anew.
  const { parameters, from, where, time, id } = scopeOf(tenantId, request);
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
    return { rows: await listTokens(query, tenantId, request), total: COUNTED_MAX, capped: true };
  // Without a row of the page the count stands alone.
  return { rows: found.filter((row) => row.id !== null), total: counted, capped: false };
};

export type TypeCount = { type: string; count: number; last_created_at: Date | null };

const COUNT_BY_TYPE = `
SELECT type, sum(change)::bigint AS count, max(last_created_at) AS last_created_at
FROM token_counts WHERE tenant_id = $1 GROUP BY type ORDER BY type`;

export const countTokensByType = async (query: Query, tenantId: string): Promise<TypeCount[]> => {
  const rows = (await query('count-by-type', COUNT_BY_TYPE, [tenantId])) as (Omit<TypeCount, 'count'> & {
    count: string;
  })[];
  return rows.map((row) => ({ ...row, count: Number(row.count) }));
};
