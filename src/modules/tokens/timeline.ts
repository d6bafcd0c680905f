// What happened to a card: the log entries about its tokens, equal ones folded, and the destinations that got its value.
import { logRow, maskHost } from '../../platform/db/audit-record.ts';
import { firstIdAt, GREATEST_ID, LEAST_ID, timeOfId, toIdRange } from '../../platform/crypto/ids.ts';
import { forbidden } from '../../platform/base/errors.ts';
import { mapInSlices } from '../../platform/json/slices.ts';
import { accessOf, decide, getTransform, mayAnywhere } from '../access/rules.ts';
import type { TokenCondition } from '../access/token-condition.ts';
import type { Work } from '../access/work.ts';
import { type EntryNames, findEntryNames, type Named } from '../logs/names.ts';
import type { TokensContext } from './context.ts';
import { ExpressionError } from './expressions/expression-error.ts';
import { createMeter } from './expressions/meter.ts';
import { getTokenRow } from './read-tokens.ts';
import { listTokenRows } from './rows/token-list.ts';
import type { StoredToken } from './rows/token-row.ts';
import { openToken, recordOfRow } from './tokens.ts';
import type { TenantQuery } from '../../platform/db/database.ts';

// Folds the log entries about a card's tokens: equal ones are counted, and so are those of each destination.

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

type FoldedEntry = Counts & {
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
type FoldedDestination = Counts & { destination_host: string; failed: number };

/** Without a time where there is no entry. */
type Fold = Partial<Counts> & { count: number; entries: FoldedEntry[]; destinations: FoldedDestination[] };

/** Rows of one answer: folding them takes 15 ms. */
export const TIMELINE_ROWS_MAX = 5_000;
/** Newest rows of the tenant that are searched for a card with more: 20 ms. */
export const TIMELINE_ROWS_WALKED = 20_000;
/** Folded entries of one answer, and destinations. */
export const FOLDED_MAX = 200;

type TimelineRange = {
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
const FOLD_TIMELINE = `
WITH matched AS MATERIALIZED (
  SELECT ${COLUMNS} FROM unnest($2::text[]) AS wanted(token_id)
  JOIN audit_log l ON l.tenant_id = $1::uuid AND l.entity_ids @> ARRAY[wanted.token_id] AND l.id >= $3::uuid AND l.id < $4::uuid
  WHERE cardinality(l.entity_ids) = 1 OR wanted.token_id = ${FIRST_IN_ROW}
), ${foldOf(`(SELECT * FROM matched LIMIT ${TIMELINE_ROWS_MAX + 1}) AS found`)}`;

/**
 * All rows of a range, by the primary key: a frequent token has more rows than its index finds in time. Nearly all rows have one
 * entity, which is compared without a subquery.
 */
const FOLD_RANGE = `
WITH taken AS NOT MATERIALIZED (
  SELECT ${COLUMNS} FROM audit_log l WHERE l.tenant_id = $1::uuid AND l.id >= $3::uuid AND l.id < $4::uuid
  AND CASE WHEN cardinality(l.entity_ids) = 1 THEN l.entity_ids[1] = ANY ($2::text[]) ELSE l.entity_ids && $2::text[] END
), ${foldOf('taken')}`;

/** The row before the newest ones of a range. */
const FIND_BOUNDARY = `
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

/** Tokens of one card, the newest. Each is opened, to decide whether the caller may see that they are equal. */
export const CARD_TOKENS_MAX = 100;

const TIMELINE_RETRIEVED = 'Token timeline retrieved';

/** Times are ISO 8601. Undefined properties are left out. */
type TimelineEntry = {
  operation: string;
  message: string;
  outcome: string;
  disclosure: string;
  actor_type: string | undefined;
  actor_id: string | undefined;
  actor_name: string | undefined;
  application_id: string | undefined;
  code_application_id: string | undefined;
  reason: string | undefined;
  reactor_id: string | undefined;
  reactor_name: string | undefined;
  proxy_id: string | undefined;
  proxy_name: string | undefined;
  destination_host: string | undefined;
  is_list: true | undefined;
  count: number;
  first_at: string;
  last_at: string;
};

type Timeline = {
  token_ids: string[];
  has_more_tokens: true | undefined;
  count: number;
  first_at: string | undefined;
  last_at: string | undefined;
  entries: TimelineEntry[];
  has_more_entries: true | undefined;
  destinations: FoldedDestination[];
  has_more_destinations: true | undefined;
  /** Older entries were not read. */
  since: string | undefined;
};

/** A half-open interval: from `start_date` on, and before `end_date`. */
type TimelineQuery = { start_date: Date | undefined; end_date: Date | undefined };

type Card = { ids: string[]; hasMore: boolean };

/** The fingerprint of a token, where the caller may see it. @throws internal. */
const printShownOf = async (ctx: TokensContext, work: Work, row: StoredToken): Promise<string | undefined> => {
  const transform = getTransform(work, 'token:read', row);
  const kept = openToken(ctx, work.tenant_id, row, await ctx.keyring.tenantKeys(work.tenant_id));
  return recordOfRow(ctx, work.tenant_id, row, kept, transform).fingerprint;
};

/** The tokens of the card that the caller may read and see to be of the same card. */
const findCard = async (ctx: TokensContext, work: Work, token: StoredToken): Promise<Card> => {
  const { tenant_id } = work;
  const print = await printShownOf(ctx, work, token);
  if (print === undefined) return { ids: [token.id], hasMore: false };
  const access = accessOf(work.caller, 'token:read');
  const equal: TokenCondition = { kind: 'in', column: 'fingerprint', values: [print] };
  const condition: TokenCondition = access === 'everything' ? equal : { kind: 'and', nodes: [equal, access] };
  const limit = CARD_TOKENS_MAX + 1;
  const rows = await listTokenRows(work.db, { condition, now: ctx.now(), start: { offset: 0 }, limit });
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const meter = createMeter();
  let isCut = rows.length > CARD_TOKENS_MAX;
  const isShown = (row: StoredToken): boolean => {
    if (row.id === token.id) return true;
    const transform = decide(work, 'token:read', row);
    if (transform === undefined) return false;
    try {
      if (row.sealed !== null) {
        const kept = openToken(ctx, tenant_id, row, keys);
        return recordOfRow(ctx, tenant_id, row, kept, transform, { meter }).fingerprint === print;
      }
    } catch (error) {
      // All masks of the answer share a meter.
      if (!(error instanceof ExpressionError)) throw error;
    }
    isCut = true;
    return false;
  };
  const others = rows.slice(0, CARD_TOKENS_MAX);
  const shown = await ctx.accounts.runInTurns(tenant_id, mapInSlices(others, isShown));
  const ids = others.flatMap(({ id }, index) => (shown[index] === true ? [id] : []));
  return { ids: ids.includes(token.id) ? ids : [...ids.slice(0, CARD_TOKENS_MAX - 1), token.id], hasMore: isCut };
};

const rangeOf = ({ start_date, end_date }: TimelineQuery): Pick<TimelineRange, 'from_id' | 'to_id'> => {
  const { from_id = LEAST_ID, to_id = GREATEST_ID } = toIdRange({ start_date, end_date });
  return { from_id, to_id };
};

/** Folds the rows of a card. If they are too many, those of the newest part of the range: `since` is where it begins. */
const readFold = async ({ db }: Work, range: TimelineRange): Promise<{ fold: Fold; since?: Date }> => {
  const whole = await foldTimeline(db, range);
  if (whole) return { fold: whole };
  const boundary = await findBoundary(db, range);
  if (boundary === undefined) return { fold: await foldRange(db, range) };
  const since = new Date(timeOfId(boundary).getTime() + 1);
  return { fold: await foldRange(db, { ...range, from_id: firstIdAt(since.getTime()) }), since };
};

const namedIn = ({ actor_type, actor_id, reactor_id, proxy_id }: FoldedEntry): Named[] => {
  const actor = { actor_type, actor_id };
  const code = [
    ['reactor', reactor_id],
    ['proxy', proxy_id],
  ] as const;
  return [
    { ...actor, entity_type: 'token', entity_id: '' },
    ...code.flatMap(([entity_type, entity_id]) => (entity_id === null ? [] : [{ ...actor, entity_type, entity_id }])),
  ];
};

const timeOf = (text: string | Date): string => new Date(text).toISOString();

const nameOf = (names: EntryNames, entity_type: string, entity_id: string | null): string | undefined =>
  entity_id === null ? undefined : names.entityOf({ entity_type, entity_id });

const entryOf = (entry: FoldedEntry, names: EntryNames): TimelineEntry => ({
  operation: entry.operation,
  message: entry.message,
  outcome: entry.outcome,
  disclosure: entry.disclosure,
  actor_type: entry.actor_type ?? undefined,
  actor_id: entry.actor_id ?? undefined,
  actor_name: names.actorOf(entry),
  application_id: entry.application_id ?? undefined,
  code_application_id: entry.code_application_id ?? undefined,
  reason: entry.reason ?? undefined,
  reactor_id: entry.reactor_id ?? undefined,
  reactor_name: nameOf(names, 'reactor', entry.reactor_id),
  proxy_id: entry.proxy_id ?? undefined,
  proxy_name: nameOf(names, 'proxy', entry.proxy_id),
  destination_host: entry.destination_host === null ? undefined : maskHost(entry.destination_host),
  is_list: entry.is_list || undefined,
  count: entry.count,
  first_at: timeOf(entry.first_at),
  last_at: timeOf(entry.last_at),
});

const destinationOf = ({
  destination_host,
  count,
  failed,
  first_at,
  last_at,
}: FoldedDestination): FoldedDestination => ({
  destination_host: maskHost(destination_host),
  count,
  failed,
  first_at: timeOf(first_at),
  last_at: timeOf(last_at),
});

/**
 * Its reading is logged as one of the log: it shows entries, and no value.
 * @throws forbidden without `log:read`, or for the token; notFound; invalidInput for an interval that ends before it begins;
 * unavailable.
 */
export const getTimeline = async (
  ctx: TokensContext,
  work: Work,
  id: string,
  query: TimelineQuery,
): Promise<Timeline> => {
  if (!mayAnywhere(work, 'log:read')) throw forbidden('log:read');
  const range = rangeOf(query);
  const { ids, hasMore } = await findCard(ctx, work, await getTokenRow(ctx, work, id));
  const { fold, since } = await readFold(work, { ...range, token_ids: ids });
  const entries = fold.entries.slice(0, FOLDED_MAX);
  const names = await findEntryNames(ctx, work.db, entries.flatMap(namedIn));
  const entity = { entity_type: 'log', entity_ids: [work.tenant_id] };
  await work.log([logRow(ctx, work, { operation: 'read', ...entity, message: TIMELINE_RETRIEVED })]);
  return {
    token_ids: ids,
    has_more_tokens: hasMore || undefined,
    count: fold.count,
    first_at: fold.first_at ? timeOf(fold.first_at) : undefined,
    last_at: fold.last_at ? timeOf(fold.last_at) : undefined,
    entries: entries.map((entry) => entryOf(entry, names)),
    has_more_entries: fold.entries.length > FOLDED_MAX || undefined,
    destinations: fold.destinations.slice(0, FOLDED_MAX).map(destinationOf),
    has_more_destinations: fold.destinations.length > FOLDED_MAX || undefined,
    since: since?.toISOString(),
  };
};
