// Tokenizes any JSON: parses its values into drafts, creates all tokens or none, and returns the same structure.
import type { Work } from '../access/work.ts';
import type { TokensContext } from './context.ts';
import { FieldErrorCollector, invalidInput } from '../../platform/errors.ts';
import { createTokens } from './create-tokens.ts';
import { JSON_DEPTH_MAX, type Json, numberProblem, depthProblem } from '../../platform/json/json.ts';
import type { Slices } from '../../platform/json/slices.ts';
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
    if (typeof value !== 'object') {
      const inexact = typeof value === 'number' ? numberProblem(value) : undefined;
      if (inexact) problems.add(path, inexact, 'inexact_number');
      return { kind: 'leaf', draft: add({ leaf: value, path: [...path] }) };
    }
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
    const draft = place.request
      ? yield* parseTokenRequest(place.request, place.path, problems, tools)
      : parseLeaf(genericTokenType, place.leaf, place.path, problems, tools);
    if (draft) drafts.push(draft);
    yield;
  }
}

const fill = (plan: Plan, records: TokenRecord[]): Tokenized => {
  switch (plan.kind) {
    case 'null':
      return null;
    case 'leaf':
      return (records[plan.draft] as TokenRecord).id;
    case 'request':
      return records[plan.draft] as TokenRecord;
    case 'array':
      return plan.items.map((item) => fill(item, records));
    case 'object':
      return Object.fromEntries(plan.entries.map(([key, item]) => [key, fill(item, records)]));
  }
};
