// Folds the log entries about a card's tokens: equal ones are counted, and so are those of each destination.
import type { TenantQuery } from '../../../platform/db/database.ts';

/** What equal entries have in common. */
const FOLDED = [
  'operation',
  'message',
  'outcome',
  'disclosure',
  'actor_type',
  'actor_id',
  'application_id',
  'code_application_id',
  'reason',
  'reactor_id',
  'proxy_id',
  'destination_host',
  'is_list',
] as const;

/** Rows of the log, each once. Times are ISO 8601. */
type Counts = { count: number; first_at: string; last_at: string };

export type FoldedEntry = Counts & {
  operation: string;
  message: string;
  outcome: string;
  disclosure: string;
  actor_type: string | null;
  actor_id: string | null;
  application_id: string | null;
  code_application_id: string | null;
  reason: string | null;
  reactor_id: string | null;
  proxy_id: string | null;
  destination_host: string | null;
  is_list: boolean;
};

/** `failed`: uses that were logged as failed afterwards. */
export type FoldedDestination = Counts & { destination_host: string; failed: number };

/** Without a time where there is no entry. */
export type Fold = Partial<Counts> & { count: number; entries: FoldedEntry[]; destinations: FoldedDestination[] };

/** Rows of one answer: folding them takes 15 ms. */
export const TIMELINE_ROWS_MAX = 5_000;
/** Newest rows of the tenant that are searched for a card with more: 20 ms. */
export const TIMELINE_ROWS_WALKED = 20_000;
/** Folded entries of one answer, and destinations. */
export const FOLDED_MAX = 200;

export type TimelineRange = {
  token_ids: readonly string[];
  /** The row's id is at least this. */
  from_id: string;
  /** The row's id is below this. */
  to_id: string;
};

const COLUMNS = `l.created_at, ${FOLDED.map((column) => `l.${column}`).join(', ')}`;

/** All that is answered comes of the groups, of which there are few. @param rows a relation with `COLUMNS`. */
const foldOf = (rows: string): string => `
groups AS MATERIALIZED (
  SELECT ${FOLDED.join(', ')}, count(*)::int AS count, min(created_at) AS first_at, max(created_at) AS last_at
  FROM ${rows} GROUP BY ${FOLDED.join(', ')}
)
SELECT coalesce(sum(count), 0)::int AS count, min(first_at) AS first_at, max(last_at) AS last_at,
  coalesce((SELECT json_agg(e) FROM (
    SELECT * FROM groups ORDER BY last_at DESC, first_at DESC, message, outcome LIMIT ${FOLDED_MAX + 1}) AS e), '[]') AS entries,
  coalesce((SELECT json_agg(d) FROM (
    SELECT destination_host, coalesce(sum(count) FILTER (WHERE outcome = 'success'), 0)::int AS count,
      coalesce(sum(count) FILTER (WHERE outcome = 'failed'), 0)::int AS failed,
      min(first_at) AS first_at, max(last_at) AS last_at
    FROM groups WHERE destination_host IS NOT NULL AND disclosure = 'used' GROUP BY destination_host
    ORDER BY max(last_at) DESC, destination_host LIMIT ${FOLDED_MAX + 1}) AS d), '[]') AS destinations
FROM groups`;

/** The first of the wanted tokens that a row has: a row with several of them counts once. */
const FIRST_IN_ROW = `(
  SELECT e.token_id FROM unnest(l.entity_ids) WITH ORDINALITY AS e(token_id, place) WHERE e.token_id = ANY ($2::text[])
  ORDER BY e.place LIMIT 1)`;

/** Rows come by the index on entities, whatever the number of rows of the tenant. MATERIALIZED, as lists of the log have it. */
export const FOLD_TIMELINE = `
WITH matched AS MATERIALIZED (
  SELECT ${COLUMNS} FROM unnest($2::text[]) AS wanted(token_id)
  JOIN audit_log l ON l.tenant_id = $1::uuid AND l.entity_ids @> ARRAY[wanted.token_id] AND l.id >= $3::uuid AND l.id < $4::uuid
  WHERE cardinality(l.entity_ids) = 1 OR wanted.token_id = ${FIRST_IN_ROW}
), ${foldOf(`(SELECT * FROM matched LIMIT ${TIMELINE_ROWS_MAX + 1}) AS found`)}`;

/**
 * All rows of a range, by the primary key: a frequent token has more rows than its index finds in time. Nearly all rows have one
 * entity, which is compared without a subquery.
 */
export const FOLD_RANGE = `
WITH taken AS NOT MATERIALIZED (
  SELECT ${COLUMNS} FROM audit_log l WHERE l.tenant_id = $1::uuid AND l.id >= $3::uuid AND l.id < $4::uuid
  AND CASE WHEN cardinality(l.entity_ids) = 1 THEN l.entity_ids[1] = ANY ($2::text[]) ELSE l.entity_ids && $2::text[] END
), ${foldOf('taken')}`;

/** The row before the newest ones of a range. */
export const FIND_BOUNDARY = `
SELECT id FROM audit_log WHERE tenant_id = $1::uuid AND id >= $2::uuid AND id < $3::uuid
ORDER BY id DESC OFFSET $4::int LIMIT 1`;

const parametersOf = ({ tenant_id }: TenantQuery, { token_ids, from_id, to_id }: TimelineRange): unknown[] => [
  tenant_id,
  token_ids,
  from_id,
  to_id,
];

/** All rows of the range; or undefined where they are more than TIMELINE_ROWS_MAX. */
export const foldTimeline = async (db: TenantQuery, range: TimelineRange): Promise<Fold | undefined> => {
  const [fold] = (await db.query(undefined, FOLD_TIMELINE, parametersOf(db, range))) as [Fold];
  return fold.count > TIMELINE_ROWS_MAX ? undefined : fold;
};

/** The newest row of the range that is not among its TIMELINE_ROWS_WALKED newest; undefined where it has no more. */
export const findBoundary = async (
  { query, tenant_id }: TenantQuery,
  { from_id, to_id }: TimelineRange,
): Promise<string | undefined> => {
  const [row] = (await query(undefined, FIND_BOUNDARY, [tenant_id, from_id, to_id, TIMELINE_ROWS_WALKED])) as {
    id: string;
  }[];
  return row?.id;
};

/** All rows of a range of TIMELINE_ROWS_WALKED rows at most. */
export const foldRange = async (db: TenantQuery, range: TimelineRange): Promise<Fold> =>
  ((await db.query(undefined, FOLD_RANGE, parametersOf(db, range))) as [Fold])[0];
