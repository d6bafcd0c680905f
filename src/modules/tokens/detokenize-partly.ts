// Detokenizes the items of a body that are right: each text with expressions is an item. Tokens are counted and logged before any
// value is returned, and before any expression is evaluated: whether one can be evaluated tells something of the value.
import type { Work } from '../access/work.ts';
import { countItems } from '../access/daily-counts.ts';
import { limitOfReveal } from '../access/limits.ts';
import { decide } from '../access/rules.ts';
import { revealedAmong, tokenLogRows } from '../../platform/db/audit-record.ts';
import type { TokensContext } from './context.ts';
import { expressionFault, findRows, missingSentence, type Opened, openRows, shownOf, valuesOf } from './detokenize.ts';
import { type FieldCode, forbidden } from '../../platform/base/errors.ts';
import { formatPath, type Json, JSON_DEPTH_MAX, walkJson } from '../../platform/json/json.ts';
import type { Slices } from '../../platform/json/slices.ts';
import {
  collectInSlices,
  createExpansion,
  createReferences,
  type Expansion,
  expandInSlices,
  expandTemplate,
  type References,
  tooManyTokens,
} from './expressions/expansion.ts';
import { ExpressionError, type ExpressionErrorCode } from './expressions/expression-error.ts';
import { tooDeep } from './expressions/expressions.ts';
import { createItemFailures, type ItemFailures, type PartialAnswer } from './item-failures.ts';

/** A text with expressions. */
type Item = { path: (string | number)[]; ids: ReadonlySet<string>; hasFailed: boolean };

/** Limits of the request: where they are reached, no single item is at fault. */
const limitCodes: ReadonlySet<ExpressionErrorCode> = new Set([
  'too_deep',
  'too_complex',
  'too_many_placeholders',
  'too_many_tokens',
  'too_large',
]);

/**
 * Replaces expressions in JSON by the values that the caller may read.
 * @returns the same structure with null in place of each text that failed, and what is wrong with these.
 * @throws invalidInput or payloadTooLarge where the request is over its limits; unavailable.
 */
export const detokenizePartly = async (ctx: TokensContext, work: Work, body: Json): Promise<PartialAnswer<Json>> => {
  const failures = createItemFailures();
  const references = createReferences();
  const items = await ctx.accounts.runInTurns(work.tenant_id, collectItems(body, references, failures));
  const opened = await openForItems(ctx, work, { items, references, failures });
  const { values, absent } = valuesOf(ctx, work, opened);
  const expansion = createExpansion(values, ctx.expressionEnvironment, references, absent);
  const data = await ctx.accounts.runInTurns(work.tenant_id, expandItems(body, items, expansion, failures));
  return failures.answer(data);
};

const fail = (failures: ItemFailures, item: Item, sentence: string, code: FieldCode): void => {
  item.hasFailed = true;
  failures.add(item.path, sentence, code);
};

/** @throws invalidInput or payloadTooLarge for a limit of the request. */
const failWith = (failures: ItemFailures, item: Item, error: unknown): void => {
  if (!(error instanceof ExpressionError)) throw error;
  if (limitCodes.has(error.code)) throw expressionFault(error, formatPath(item.path));
  fail(failures, item, error.message, 'bad_expression');
};

/** All items, in the order of the JSON. The references have what those that are valid refer to. */
function* collectItems(body: Json, references: References, failures: ItemFailures): Slices<Item[]> {
  const items: Item[] = [];
  const walk = walkJson(body);
  while (walk.next()) {
    const { value } = walk;
    if (walk.isPauseDue()) yield;
    if (typeof value === 'object' && value !== null && walk.depth === JSON_DEPTH_MAX)
      throw expressionFault(tooDeep(), formatPath(walk.path()));
    if (typeof value !== 'string' || !value.includes('{{')) continue;
    const own = { ...references, ids: new Set<string>(), isWhole: false };
    const item: Item = { path: walk.path(), ids: own.ids, hasFailed: false };
    items.push(item);
    try {
      yield* collectInSlices(value, own);
      for (const id of own.ids) references.ids.add(id);
      if (references.ids.size > references.limits.tokensMax) throw tooManyTokens(references.limits);
      references.isWhole ||= own.isWhole;
    } catch (error) {
      failWith(failures, item, error);
    }
    references.placeholders = own.placeholders;
  }
  return items;
}

type Asked = { items: readonly Item[]; references: References; failures: ItemFailures };

/** Opens the tokens of the items that are right, and fails the others. The log rows are committed when this returns. */
const openForItems = async (
  ctx: TokensContext,
  work: Work,
  { items, references, failures }: Asked,
): Promise<Map<string, Opened>> => {
  if (references.ids.size === 0) return new Map();
  const rows = new Map((await findRows(ctx, work, references)).map((row) => [row.id, row]));
  const refused = new Set<string>();
  for (const row of rows.values()) if (decide(work, 'token:read', row) === undefined) refused.add(row.id);
  if (refused.size > 0) await ctx.refusals.record(work, forbidden('token:read'), undefined);
  for (const item of items) {
    if (item.hasFailed) continue;
    const unknown = [...item.ids].filter((id) => !rows.has(id));
    if (unknown.length > 0)
      fail(failures, item, missingSentence('must refer to tokens that exist', unknown), 'not_found');
    else if ([...item.ids].some((id) => refused.has(id)))
      fail(failures, item, forbidden('token:read').message, 'permission_missing');
  }
  const needed = idsOf(items);
  const opened = await openRows(
    ctx,
    work,
    [...rows.values()].filter(({ id }) => needed.has(id)),
    'read',
  );
  const shown = shownOf(work, opened, 'read');
  await countFor(ctx, work, { items, references, failures }, new Set(revealedAmong(shown)));
  const counted = idsOf(items);
  for (const id of needed) if (!counted.has(id)) opened.delete(id);
  const logged = shown.filter(({ id }) => counted.has(id));
  if (logged.length > 0) await work.log(tokenLogRows(ctx, work, 'read', logged));
  return opened;
};

/** What the items refer to that have not failed. */
const idsOf = (items: readonly Item[]): Set<string> =>
  new Set(items.flatMap(({ hasFailed, ids }) => (hasFailed ? [] : [...ids])));

/** Counts the tokens whose value is revealed, item after item, and fails the items over the daily limit. */
const countFor = async (
  ctx: TokensContext,
  work: Work,
  { items, failures }: Asked,
  revealed: ReadonlySet<string>,
): Promise<void> => {
  // Many items refer to the same tokens, which are counted once.
  const groups = new Map<string, { ids: string[]; items: Item[] }>();
  for (const item of items) {
    const ids = item.hasFailed ? [] : [...item.ids].filter((id) => revealed.has(id)).toSorted();
    if (ids.length === 0) continue;
    const name = JSON.stringify(ids);
    const group = groups.get(name);
    if (group) group.items.push(item);
    else groups.set(name, { ids, items: [item] });
  }
  const all = [...groups.values()];
  const refusals = await countItems(
    ctx,
    work,
    limitOfReveal(work),
    all.map(({ ids }) => ids),
  );
  for (const [index, refusal] of refusals.entries())
    if (refusal) for (const item of all[index]?.items ?? []) fail(failures, item, refusal.message, 'daily_limit');
};

/** Replaces the items by their values, and those that fail by null. */
const expandItems = (
  body: Json,
  items: readonly Item[],
  expansion: Expansion,
  failures: ItemFailures,
): Slices<Json> => {
  let next = 0;
  return expandInSlices(body, expansion, (text) => {
    const item = items[next] as Item;
    next += 1;
    if (item.hasFailed) return null;
    try {
      return expandTemplate(text, expansion);
    } catch (error) {
      failWith(failures, item, error);
      return null;
    }
  });
};
