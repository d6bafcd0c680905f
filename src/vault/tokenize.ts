// Any JSON in, the same shape of tokens out: walks the body into drafts, makes all of them or none, and puts what was made
// back where it stood (interface.md "Tokenize", decisions.md section 2).
import type { Caller } from '../access/caller.ts';
import type { Context } from '../context.ts';
import { invalidInput } from '../errors.ts';
import { createTokens } from './create-tokens.ts';
import { JSON_DEPTH_MAX, type Json, numberProblem } from './json.ts';
import { createProblems, draftOfLeaf, type Draft, parseTokenRequest, type Problems } from './token-request.ts';
import { genericTokenType } from './token-types.ts';
import { draftTools, type TokenRecord } from './tokens.ts';

/** decisions.md section 2. */
export const TOKENIZE_LEAVES_MAX = 10_000;

export type Tokenized = null | string | TokenRecord | Tokenized[] | { [key: string]: Tokenized };

/** The body's shape with a draft's number at each leaf: what `fill` needs to build the answer. */
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
export const tokenize = async (ctx: Context, caller: Caller, body: Json): Promise<Tokenized> => {
  const drafts: Draft[] = [];
  const problems = createProblems();
  const plan = planOf(ctx, body, drafts, problems);
  if (problems.count > 0) throw invalidInput(problems.errors);
  if (drafts.length === 0) return fill(plan, []);
  return createTokens(ctx, caller, drafts, { answer: (records) => fill(plan, records) });
};

const planOf = (ctx: Context, body: Json, drafts: Draft[], problems: Problems): Plan => {
  const tools = draftTools(ctx);
  const path: (string | number)[] = [];

  const add = (draft: Draft | undefined): number => {
    // A bad draft leaves a hole that nobody sees: its problem refuses the whole body.
    if (draft) drafts.push(draft);
    if (drafts.length === TOKENIZE_LEAVES_MAX + 1) problems.add([], `must have at most ${TOKENIZE_LEAVES_MAX} values`);
    return drafts.length - 1;
  };

  const visit = (value: Json, depth: number): Plan => {
    if (value === null) return { kind: 'null' };
    if (typeof value !== 'object') {
      const inexact = typeof value === 'number' ? numberProblem(value) : undefined;
      if (inexact) problems.add(path, inexact);
      return { kind: 'leaf', draft: add(inexact ? undefined : draftOfLeaf(genericTokenType, value)) };
    }
    if (depth === JSON_DEPTH_MAX) {
      problems.add(path, `must not be nested deeper than ${JSON_DEPTH_MAX} levels`);
      return { kind: 'null' };
    }
    if (Array.isArray(value)) return { kind: 'array', items: value.map((item, index) => visitAt(index, item, depth)) };
    if (isTokenRequest(value)) return { kind: 'request', draft: add(parseTokenRequest(value, path, problems, tools)) };
    return {
      kind: 'object',
      entries: Object.entries(value).map(([key, item]): [string, Plan] => [key, visitAt(key, item, depth)]),
    };
  };

  const visitAt = (step: string | number, value: Json, depth: number): Plan => {
    if (problems.stopped || drafts.length > TOKENIZE_LEAVES_MAX) return { kind: 'null' };
    path.push(step);
    const plan = visit(value, depth + 1);
    path.pop();
    return plan;
  };

  return visit(body, 0);
};

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
