// Tokenizes any JSON: parses its values into drafts, creates all tokens or none, and returns the same structure. A partial batch
// leaves out the items that fail.
import type { Work } from '../access/work.ts';
import type { TokensContext } from './context.ts';
import { pinEach } from '../access/bound-targets.ts';
import { wouldDecide } from '../access/rules.ts';
import { AppError, FieldErrorCollector, forbidden, invalidInput } from '../../platform/base/errors.ts';
import { createTokens, deduplicates } from './create-tokens.ts';
import { createItemFailures, type ItemFailures, type PartialAnswer } from './item-failures.ts';
import { JSON_DEPTH_MAX, type Json, numberProblem, depthProblem } from '../../platform/json/json.ts';
import type { Slices } from '../../platform/json/slices.ts';
import { findTakenIds } from './rows/token-transactions.ts';
import { type Draft, type DraftTools, parseLeaf, parseTokenRequest } from './token-request.ts';
import { genericTokenType } from './token-types.ts';
import { draftTools, type TokenRecord } from './tokens.ts';

/** Values in one body. All their tokens are written in one transaction. */
export const TOKENIZE_LEAVES_MAX = 10_000;

export type Tokenized = null | string | TokenRecord | Tokenized[] | { [key: string]: Tokenized };

/** The structure of the body, with the index of a draft at each leaf. `fill` builds the response from it. */
type Plan =
  | { kind: 'null' }
  | { kind: 'leaf'; draft: number }
  | { kind: 'request'; draft: number }
  | { kind: 'array'; items: Plan[] }
  | { kind: 'object'; entries: [string, Plan][] };

const isTokenRequest = (value: Record<string, Json>): boolean =>
  Object.hasOwn(value, 'type') && Object.hasOwn(value, 'data');

/**
 * Tokenizes a body whole: all or nothing.
 * @param body parsed JSON.
 * @returns the same structure; a plain leaf becomes a token id, a token request a token record, null stays null.
 * @throws invalidInput naming every bad place; forbidden where token:create does not reach a container; conflict for an id that is taken.
 */
export const tokenize = async (ctx: TokensContext, work: Work, body: Json): Promise<Tokenized> => {
  const drafts: Draft[] = [];
  const problems = new FieldErrorCollector();
  const { plan, places } = planOf(body, problems);
  await ctx.accounts.runInTurns(work.tenant_id, draftInSlices(draftTools(ctx, work), places, drafts, problems));
  if (problems.count > 0) throw invalidInput(problems.errors);
  if (drafts.length === 0) return fill(plan, []);
  return createTokens(ctx, work, drafts, { answer: (records) => fill(plan, records) });
};

/**
 * Tokenizes the items of a body that are right. All of their tokens are created, or none.
 * @returns the same structure with null in place of the other items, and what is wrong with these.
 * @throws invalidInput for a body that is too deep or has too many values, or takes too much work.
 */
export const tokenizePartly = async (ctx: TokensContext, work: Work, body: Json): Promise<PartialAnswer<Tokenized>> => {
  const envelope = new FieldErrorCollector();
  const { plan, places } = planOf(body, envelope);
  if (envelope.count > 0) throw invalidInput(envelope.errors);
  const failures = createItemFailures();
  const parsed = draftPartly(draftTools(ctx, work), places, failures);
  const drafts = await ctx.accounts.runInTurns(work.tenant_id, parsed);
  if (dropForbidden(work, places, drafts, failures))
    await ctx.refusals.record(work, forbidden('token:create'), undefined);
  await dropUnbound(ctx, work, drafts, failures);
  return createLeft(ctx, work, { plan, places, drafts }, failures);
};

/** The drafts of a body, by their place. One that fails is removed. */
type Drafts = Map<number, Draft>;

/** A value of the body that becomes a token, with the path to it. */
type Place = { path: (string | number)[] } & (
  | { leaf: string | number | boolean; request?: undefined }
  | { request: Record<string, Json> }
);

const planOf = (body: Json, problems: FieldErrorCollector): { plan: Plan; places: Place[] } => {
  const places: Place[] = [];
  const path: (string | number)[] = [];

  const add = (place: Place): number => {
    places.push(place);
    if (places.length === TOKENIZE_LEAVES_MAX + 1)
      problems.add([], `must have at most ${TOKENIZE_LEAVES_MAX} values`, 'too_large');
    return places.length - 1;
  };

  const visit = (value: Json, depth: number): Plan => {
    if (value === null) return { kind: 'null' };
    if (typeof value !== 'object') return { kind: 'leaf', draft: add({ leaf: value, path: [...path] }) };
    if (depth === JSON_DEPTH_MAX) {
      problems.add(path, depthProblem(), 'too_deep');
      return { kind: 'null' };
    }
    if (Array.isArray(value)) return { kind: 'array', items: value.map((item, index) => visitAt(index, item, depth)) };
    if (isTokenRequest(value)) return { kind: 'request', draft: add({ request: value, path: [...path] }) };
    return {
      kind: 'object',
      entries: Object.entries(value).map(([key, item]): [string, Plan] => [key, visitAt(key, item, depth)]),
    };
  };

  const visitAt = (step: string | number, value: Json, depth: number): Plan => {
    if (problems.stopped || places.length > TOKENIZE_LEAVES_MAX) return { kind: 'null' };
    path.push(step);
    const plan = visit(value, depth + 1);
    path.pop();
    return plan;
  };

  return { plan: visit(body, 0), places };
};

/** The draft of each place. Where one is missing, its problem refuses the whole body. */
function* draftInSlices(
  tools: DraftTools,
  places: readonly Place[],
  drafts: Draft[],
  problems: FieldErrorCollector,
): Slices<void> {
  for (const place of places) {
    if (problems.stopped || drafts.length > TOKENIZE_LEAVES_MAX) return;
    const draft = yield* draftOf(tools, place, problems);
    if (draft) drafts.push(draft);
    yield;
  }
}

/** @returns undefined where a problem was added. */
function* draftOf(tools: DraftTools, place: Place, problems: FieldErrorCollector): Slices<Draft | undefined> {
  if (place.request) return yield* parseTokenRequest(place.request, place.path, problems, tools);
  const inexact = typeof place.leaf === 'number' ? numberProblem(place.leaf) : undefined;
  if (inexact === undefined) return parseLeaf(genericTokenType, place.leaf, place.path, problems, tools);
  problems.add(place.path, inexact, 'inexact_number');
  return undefined;
}

/** @throws invalidInput where the expressions have spent what one request may: that is no fault of one item. */
function* draftPartly(tools: DraftTools, places: readonly Place[], failures: ItemFailures): Slices<Drafts> {
  const drafts: Drafts = new Map();
  for (const [index, place] of places.entries()) {
    const problems = new FieldErrorCollector();
    const draft = yield* draftOf(tools, place, problems);
    if (problems.isSpent) throw invalidInput(problems.errors);
    if (draft) drafts.set(index, draft);
    else failures.addAll(problems);
    yield;
  }
  return drafts;
}

const pathOf = (places: readonly Place[], index: number) => (places[index] as Place).path;

/** Drops what the caller may not create. @returns whether there was any. */
const dropForbidden = (work: Work, places: readonly Place[], drafts: Drafts, failures: ItemFailures): boolean => {
  const before = failures.total;
  for (const [index, { id, container }] of drafts) {
    const target = id === undefined ? { container } : { id, container };
    if (wouldDecide(work.caller, 'token:create', target) !== undefined) continue;
    failures.add(pathOf(places, index), forbidden('token:create').message, 'permission_missing');
    drafts.delete(index);
  }
  return failures.total > before;
};

/** Drops the items whose bound names a proxy or reactor that the tenant does not have. */
const dropUnbound = async (ctx: TokensContext, work: Work, drafts: Drafts, failures: ItemFailures): Promise<void> => {
  const indexes = [...drafts.keys()];
  const asked = [...drafts.values()].map(({ bound_to }) => bound_to);
  const problems = asked.map(() => new FieldErrorCollector());
  await pinEach(ctx, work.tenant_id, asked, (at) => problems[at] as FieldErrorCollector);
  for (const [at, each] of problems.entries()) {
    if (each.count === 0) continue;
    failures.addAll(each);
    drafts.delete(indexes[at] as number);
  }
};

const TAKEN = 'A token with this id already exists.';

/** Drops the items whose id an item before them has, or a token. @param isTried whether an item may be dropped yet. */
const dropTaken = async (
  work: Work,
  places: readonly Place[],
  drafts: Drafts,
  failures: ItemFailures,
  isTried: (draft: Draft) => boolean,
): Promise<void> => {
  const chosen = new Map<string, number>();
  const drop = (index: number): void => {
    failures.add([...pathOf(places, index), 'id'], TAKEN, 'already_exists');
    drafts.delete(index);
  };
  for (const [index, draft] of drafts) {
    if (draft.id === undefined || !isTried(draft)) continue;
    if (chosen.has(draft.id)) drop(index);
    else chosen.set(draft.id, index);
  }
  if (chosen.size === 0) return;
  for (const id of await findTakenIds(work.db, [...chosen.keys()])) drop(chosen.get(id) as number);
};

/** Attempts to create tokens, while others take the ids that clients have chosen. */
const CREATE_TRIES_MAX = 3;

/** Creates the tokens of the drafts that are left. */
const createLeft = async (
  ctx: TokensContext,
  work: Work,
  { plan, places, drafts }: { plan: Plan; places: readonly Place[]; drafts: Drafts },
  failures: ItemFailures,
): Promise<PartialAnswer<Tokenized>> => {
  for (let tries = 1; ; tries += 1) {
    // An item that deduplicates needs its id only where no token has its value: the first attempt tells.
    await dropTaken(work, places, drafts, failures, (draft) => tries > 1 || !deduplicates(work, draft));
    const indexes = [...drafts.keys()];
    const answer = (records: TokenRecord[]): PartialAnswer<Tokenized> => {
      const made: (TokenRecord | undefined)[] = [];
      for (const [at, index] of indexes.entries()) made[index] = records[at];
      return failures.answer(fill(plan, made));
    };
    if (indexes.length === 0) return answer([]);
    try {
      return await createTokens(ctx, work, [...drafts.values()], { answer });
    } catch (error) {
      const isTaken = error instanceof AppError && error.failureCause === 'already_exists';
      if (!isTaken || tries === CREATE_TRIES_MAX) throw error;
    }
  }
};

/** @param records by the index of their draft. An item without one is null. */
const fill = (plan: Plan, records: readonly (TokenRecord | undefined)[]): Tokenized => {
  switch (plan.kind) {
    case 'null':
      return null;
    case 'leaf':
      return records[plan.draft]?.id ?? null;
    case 'request':
      return records[plan.draft] ?? null;
    case 'array':
      return plan.items.map((item) => fill(item, records));
    case 'object':
      return Object.fromEntries(plan.entries.map(([key, item]) => [key, fill(item, records)]));
  }
};
