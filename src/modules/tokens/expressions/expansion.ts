// Replaces expressions by token values at request time. The limits hold for all places of a request together.
// The caller of these functions looks tokens up and checks access.
import { ExpressionError } from './expression-error.ts';
import {
  countPlaceholder,
  type Expression,
  EXPRESSION_PLACEHOLDERS_MAX,
  locate,
  scanTemplate,
  type Template,
} from './template.ts';
import type { BoundPlace } from '../../access/bounds.ts';
import { forbidden } from '../../../platform/base/errors.ts';
import { Absent, type ExpressionEnvironment, type Known } from './filter-call.ts';
import { evaluateTemplate, evaluateText, type Evaluation, misplacedAlias, tooDeep } from './expressions.ts';
import { type Json, JSON_DEPTH_MAX, walkJson } from '../../../platform/json/json.ts';
import { runAtOnce, type Slices } from '../../../platform/json/slices.ts';
import { createMeter, EXPANDED_BYTES_MAX } from './meter.ts';
import { notInTokenId, TOKEN_ID_LENGTH_MAX } from '../../access/token-id.ts';
import { applyFilters } from './filters.ts';

// Parses requests of a tenant's code, where only `svc.expression` and `svc.literal` make expressions.
// `{{` from args, tokens or responses is never parsed as an expression there.

export type CodedText = { literal: string } | { id: string; filter?: string | null | undefined };

/** The sandbox generates the UUID for each run, so only code of that run can write a mark. */
export const CODED_MARK = /svc-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9]{1,9}/;

const mark = new RegExp(`\\{\\{(${CODED_MARK.source})\\}\\}`, 'g');

const anyMark = new RegExp(CODED_MARK.source, 'g');

const WANTED =
  'must have no {{ but what svc.expression(id, filter) makes; other text that holds {{ must be wrapped in svc.literal(text)';

/** The expressions and literals that code marked in one request, by their marks. */
export type CodedTexts = {
  /** @throws ExpressionError for `{{` outside a mark, and for an invalid expression. */
  scan(text: string): Template;
  /** Whether the scanned texts contained every mark. */
  isComplete(): boolean;
  /** Whether a text that is about to be sent still contains a mark. */
  isIn(text: string): boolean;
};

type Coded = Pick<Expression, 'head' | 'filters' | 'literal'> & { draws: boolean };

/** Parses one id and its filters. Neither can end the expression or begin another. @throws ExpressionError. */
const expressionOf = (id: string, filter: string): Coded => {
  const { parts, draws } = scanTemplate(filter.trim() === '' ? `{{${id}}}` : `{{${id}|${filter}}}`);
  const [only] = parts;
  if (parts.length !== 1 || typeof only !== 'object' || only.head !== id.trim() || only.head.startsWith('token:'))
    throw new ExpressionError('unknown_head', 'must give svc.expression one id of a token, and filters apart from it');
  return { ...only, draws };
};

const readCoded = (text: CodedText): Coded =>
  'literal' in text
    ? { head: '', filters: [], literal: text.literal, draws: false }
    : expressionOf(text.id, text.filter ?? '');

export const createCodedTexts = (marked: ReadonlyMap<string, CodedText>): CodedTexts => {
  const read = new Map<string, Coded>();
  const scan = (text: string): Template => {
    const template: Template = { parts: [], draws: false };
    let done = 0;
    let placeholders = 0;
    const addText = (between: string): void => {
      if (between.includes('{{')) throw new ExpressionError('not_coded', WANTED, done + between.indexOf('{{'));
      if (between !== '') template.parts.push(between);
    };
    for (const { 0: whole, 1: name = '', index } of text.matchAll(mark)) {
      const coded = marked.get(name);
      if (!coded) continue;
      addText(text.slice(done, index));
      placeholders = countPlaceholder(placeholders);
      const parsed = read.get(name) ?? readCoded(coded);
      read.set(name, parsed);
      const { draws, ...expression } = parsed;
      template.parts.push({ ...expression, offset: index });
      template.draws ||= draws;
      done = index + whole.length;
    }
    addText(text.slice(done));
    if (template.parts.length === 0) template.parts.push('');
    return template;
  };
  const isIn = (text: string): boolean => {
    for (const [name] of text.matchAll(anyMark)) if (marked.has(name)) return true;
    return false;
  };
  return { scan, isComplete: () => read.size === marked.size, isIn };
};

/** Tokens that one request may refer to. */
export const EXPRESSION_TOKENS_MAX = 100;

/** A token as `{{ token: id }}` shows it. `{{ id }}` shows its `data`. */
export type ExpansionRecord = { [attribute: string]: Json };

type ExpansionLimits = { tokensMax: number; placeholdersMax: number; bytesMax: number };

const requestLimits: ExpansionLimits = {
  tokensMax: EXPRESSION_TOKENS_MAX,
  placeholdersMax: EXPRESSION_PLACEHOLDERS_MAX,
  bytesMax: EXPANDED_BYTES_MAX,
};

type TokenReference = { id: string; whole: boolean };

const BY_ID = 'must refer to a token by its id';
const PART = "a part of its value is `{{ id | json: '$.name' }}`";

export const parseTokenReference = (head: string): TokenReference => {
  // The check avoids a pattern match: nearly all references are a plain id.
  const [, named] = head.startsWith('token:') ? (/^token: *(.+)$/.exec(head) ?? []) : [];
  const id = named ?? head;
  if (id.length > TOKEN_ID_LENGTH_MAX || notInTokenId.test(id))
    throw new ExpressionError('unknown_head', /[[\]]/.test(id) ? `${BY_ID}; ${PART}` : BY_ID);
  return { id, whole: named !== undefined };
};

/**
 * What the expressions of one request refer to, collected before tokens are read. A token counts once. Parsed templates are
 * kept for the expansion.
 */
export type References = {
  readonly ids: Set<string>;
  /** Part of a forwarded request that is being searched, and what was found in each. Undefined for other JSON. */
  placed?: { at: BoundPlace; readonly ids: ReadonlyMap<BoundPlace, Set<string>> };
  /** Whether an expression refers to more of a token than its data. */
  isWhole: boolean;
  placeholders: number;
  readonly limits: ExpansionLimits;
  readonly templates: Map<string, Template>;
  /** Set for requests of a tenant's code: only what the code marked is an expression. */
  readonly coded: CodedTexts | undefined;
  /** False if the caller may use no token: the first reference is refused. */
  readonly mayUse?: boolean;
};

export const createReferences = (limits = requestLimits, coded?: CodedTexts): References => ({
  ids: new Set(),
  isWhole: false,
  placeholders: 0,
  limits,
  templates: new Map(),
  coded,
});

export const scanText = (text: string, { coded }: Pick<References, 'coded'>): Template =>
  coded ? coded.scan(text) : scanTemplate(text);

/**
 * Adds the ids that the strings of a JSON value refer to. All places of one request share the references.
 * @throws ExpressionError; `too_many_tokens` and `too_many_placeholders` among its codes.
 */
export const collectTokenIds = (value: Json, references = createReferences()): References =>
  runAtOnce(collectInSlices(value, references));

/** Collects like `collectTokenIds`, with a pause after each text. */
export function* collectInSlices(value: Json, references: References): Slices<References> {
  const walk = walkJson(value);
  while (walk.next()) {
    const { value: each } = walk;
    if (typeof each === 'object' && each !== null && walk.depth === JSON_DEPTH_MAX) throw tooDeep();
    if (isTemplate(each)) {
      const template = scan(each, references);
      for (const part of template.parts) if (typeof part === 'object') collectOne(part, references);
      yield;
    } else if (walk.isPauseDue()) yield;
  }
  return references;
}

export type Cut = { text: string; isExpression: boolean; lastFilter: string | undefined };

/** Splits a text into literals and expressions, as written. Linear. */
export const cutTemplate = (text: string, { parts }: Template): Cut[] => {
  const cuts: Cut[] = [];
  let end = text.length;
  // From the end, because an expression has an offset but no length, and a literal a length but no offset.
  for (const part of parts.toReversed()) {
    const start = typeof part === 'string' ? end - part.length : part.offset;
    const lastFilter = typeof part === 'string' ? undefined : part.filters.at(-1)?.name;
    cuts.push({ text: text.slice(start, end), isExpression: typeof part !== 'string', lastFilter });
    end = start;
  }
  return cuts.toReversed();
};

const scan = (text: string, references: References): Template => {
  const { templates } = references;
  let template = templates.get(text);
  if (template) return template;
  template = scanText(text, references);
  if (template.draws) throw misplacedAlias();
  templates.set(text, template);
  return template;
};

const collectOne = ({ head, offset, literal }: Expression, references: References): void => {
  try {
    const { placeholdersMax, tokensMax } = references.limits;
    references.placeholders = countPlaceholder(references.placeholders, placeholdersMax);
    if (literal !== undefined) return;
    const { id, whole } = parseTokenReference(head);
    if (references.mayUse === false) throw forbidden('token:use');
    references.ids.add(id);
    references.placed?.ids.get(references.placed.at)?.add(id);
    references.isWhole ||= whole;
    if (references.ids.size > tokensMax) throw tooManyTokens(references.limits);
  } catch (error) {
    throw locate(error, offset);
  }
};

export const tooManyTokens = ({ tokensMax }: ExpansionLimits) =>
  new ExpressionError('too_many_tokens', `must refer to at most ${tokensMax} tokens`);

/** The expansion of one request: all its places share the limits. */
export type Expansion = Evaluation & { readonly references: References };

/** How paths without a value are treated: as errors, unless the tenant says null. */
export type AbsentPaths = {
  isAbsentNull?: boolean | undefined;
  knownOf?: ((id: string, whole: boolean) => readonly Known[]) | undefined;
};

/**
 * @param resolve finds a token's record by id; undefined for a missing token. Only if `whole` is true may the expression
 * see more than `data`. A record without `data` has none that the caller may see.
 * @param references what was collected before, and its limits.
 */
export const createExpansion = (
  resolve: (id: string, whole: boolean) => ExpansionRecord | undefined,
  environment: ExpressionEnvironment,
  references = createReferences(),
  { isAbsentNull = false, knownOf }: AbsentPaths = {},
): Expansion => {
  const { limits } = references;
  const seen = new Set<string>();
  const valueOf = (expression: Expression): Json | undefined => {
    if (expression.literal !== undefined) return expression.literal;
    const { id, whole } = parseTokenReference(expression.head);
    // Counted again, because a place that was not collected must not exceed the limit.
    if (seen.size === limits.tokensMax && !seen.has(id)) throw tooManyTokens(limits);
    seen.add(id);
    const record = resolve(id, whole);
    if (record === undefined) throw new ExpressionError('unknown_token', 'must refer to tokens that exist');
    if (whole) return record;
    return Object.hasOwn(record, 'data') ? record['data'] : undefined;
  };
  const evaluation = { valueOf, environment, meter: createMeter(), limits, references, isAbsentNull };
  if (!knownOf) return evaluation;
  const knownOfExpression = ({ head, literal }: Expression): readonly Known[] => {
    if (literal !== undefined) return [];
    const { id, whole } = parseTokenReference(head);
    return knownOf(id, whole);
  };
  return { ...evaluation, knownOf: knownOfExpression };
};

/**
 * Replaces expressions in a JSON value, once: values are not parsed again. A string that is exactly one expression takes the
 * JSON type of its value. In longer strings, structure becomes compact JSON and null becomes nothing. Object keys are never
 * expanded. The input is not changed.
 * @throws ExpressionError; `too_large` means 413, every other code 400.
 */
export const expandJson = (value: Json, expansion: Expansion): Json => runAtOnce(expandInSlices(value, expansion));

const isTemplate = (value: Json): value is string => typeof value === 'string' && value.includes('{{');

/** Values between two pauses. */
const PAUSE_VALUES = 500;

/** A container whose children are being expanded, and the copy that gets them. */
type Level = { values: Json[]; made: Json[]; names: string[] | undefined };

/** The value of a text with expressions; null for none. @throws ExpressionError. */
export const expandTemplate = (text: string, expansion: Expansion): Json =>
  evaluateTemplate(scan(text, expansion.references), expansion) ?? null;

/**
 * Expands like `expandJson`, with a pause after each text that was expanded. Does not recurse.
 * @param valueOf gives the value of each text with expressions, in the order of the JSON.
 */
export function* expandInSlices(
  root: Json,
  expansion: Expansion,
  valueOf: (text: string) => Json = (text) => expandTemplate(text, expansion),
): Slices<Json> {
  const levels: Level[] = [];
  let visited = 0;
  let value: Json | undefined = root;
  for (;;) {
    visited += 1;
    if (isTemplate(value)) {
      value = valueOf(value);
      yield;
    } else if (typeof value === 'object' && value !== null) {
      if (levels.length === JSON_DEPTH_MAX) throw tooDeep();
      const names = Array.isArray(value) ? undefined : Object.keys(value);
      levels.push({ values: Object.values(value), made: [], names });
      value = undefined;
    }
    if (visited % PAUSE_VALUES === 0) yield;
    // Closes the containers that are complete.
    let level = levels.at(-1);
    for (; level; level = levels.at(-1)) {
      if (value !== undefined) level.made.push(value);
      value = undefined;
      if (level.made.length < level.values.length) break;
      levels.pop();
      const { names, made }: Level = level;
      value = names ? Object.fromEntries(names.map((name, index) => [name, made[index] as Json])) : made;
    }
    if (!level) return value as Json;
    value = level.values[level.made.length] as Json;
  }
}

/**
 * Replaces expressions in a text, once.
 * @param encode escapes a value for its place (percent-encoding, XML), or throws to refuse it.
 * @throws ExpressionError, as `expandJson`; and what `encode` throws.
 */
export const expandText = (text: string, encode: (value: string) => string, expansion: Expansion): string =>
  evaluateText(scan(text, expansion.references), expansion, encode);

// Puts masks in the place of values in an expansion, for previews. It looks nothing up, and opens no value.

/** In place of a value without a mask. Every header, path and charset holds these letters as they are. */
export const HIDDEN = 'XXXX';

/** An expansion in which the expressions that were found have the masks of their values. Filters that do not fit a mask hide it. */
export const maskExpressions = (expansion: Expansion): Expansion => {
  const masks = new Map<Expression, Json>();
  const { templates } = expansion.references;
  for (const [text, template] of templates) {
    const parts = template.parts.map((part) => {
      if (typeof part === 'string') return part;
      const masked = { ...part, filters: [] };
      masks.set(masked, maskOfExpression(part, expansion));
      return masked;
    });
    templates.set(text, { ...template, parts });
  }
  return { ...expansion, valueOf: (expression) => masks.get(expression) };
};

const maskOfExpression = (expression: Expression, expansion: Expansion): Json => {
  try {
    const mask = expansion.valueOf(expression);
    // No filter makes something of a value that is not shown.
    if (mask === undefined) return HIDDEN;
    const shown = applyFilters(mask, expression.filters, expansion.environment, expansion.meter);
    return shown === undefined || shown instanceof Absent ? HIDDEN : shown;
  } catch (error) {
    if (error instanceof ExpressionError) return HIDDEN;
    throw error;
  }
};
