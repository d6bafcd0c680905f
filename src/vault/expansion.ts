// Expressions at request time: token ids in, their values out, in the places of a request. Limits hold for all places
// together; whose tokens they are and who may see them is for whoever resolves the ids. decisions.md section 4.
import { forbidden } from '../errors.ts';
import type { CodedTexts } from './coded-texts.ts';
import { type Evaluation, evaluateTemplate, evaluateText, mapStrings, misplacedAlias, tooDeep } from './evaluation.ts';
import { ExpressionError } from './expression-error.ts';
import type { ExpressionEnvironment } from './filter-call.ts';
import { JSON_DEPTH_MAX, type Json } from './json.ts';
import { createMeter, EXPANDED_BYTES_MAX } from './meter.ts';
import {
  countPlaceholder,
  type Expression,
  EXPRESSION_PLACEHOLDERS_MAX,
  locate,
  scanTemplate,
  type Template,
} from './template.ts';
import { notInTokenId, TOKEN_ID_LENGTH_MAX } from './token-id.ts';

/** decisions.md section 4. */
export const EXPRESSION_TOKENS_MAX = 100;

/** A token as `{{ token: id }}` shows it, in JSON; `{{ id }}` is its `data`. */
export type ExpansionRecord = { [attribute: string]: Json };

export type ExpansionLimits = { tokensMax: number; placeholdersMax: number; bytesMax: number };

const requestLimits: ExpansionLimits = {
  tokensMax: EXPRESSION_TOKENS_MAX,
  placeholdersMax: EXPRESSION_PLACEHOLDERS_MAX,
  bytesMax: EXPANDED_BYTES_MAX,
};

type TokenReference = { id: string; whole: boolean };

const parseTokenReference = (head: string): TokenReference => {
  // Nearly all are the id itself.
  const [, named] = head.startsWith('token:') ? (/^token: *(.+)$/.exec(head) ?? []) : [];
  const id = named ?? head;
  if (id.length > TOKEN_ID_LENGTH_MAX || notInTokenId.test(id))
    throw new ExpressionError('unknown_head', 'must refer to a token by its id');
  return { id, whole: named !== undefined };
};

/**
 * What the places of one request refer to, gathered before anything is fetched. A token named twice counts once. Texts
 * that were taken apart for it are kept for the expansion.
 */
export type References = {
  readonly ids: Set<string>;
  /** Some expression sees more of a token than its data. */
  isWhole: boolean;
  placeholders: number;
  readonly limits: ExpansionLimits;
  readonly templates: Map<string, Template>;
  /** Of a request that a tenant's code makes: what it marked, and nothing else, is an expression. */
  readonly coded: CodedTexts | undefined;
  /** False where the caller may use no token: the first that is referred to is refused. */
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

/** @throws ExpressionError. */
export const scanText = (text: string, { coded }: Pick<References, 'coded'>): Template =>
  coded ? coded.scan(text) : scanTemplate(text);

/**
 * Adds the ids that a JSON value's strings, or a text, refer to; for several places of one request pass the same references.
 * @throws ExpressionError; `too_many_tokens` and `too_many_placeholders` among its codes.
 */
export const collectTokenIds = (value: Json, references = createReferences()): References => {
  eachString(value, JSON_DEPTH_MAX, (text) => {
    const template = scan(text, references);
    for (const part of template.parts) if (typeof part === 'object') collectOne(part, references);
  });
  return references;
};

export type Cut = { text: string; isExpression: boolean; lastFilter: string | undefined };

/** The literals and expressions of a text, each as it stands in it. Linear. */
export const cutTemplate = (text: string, { parts }: Template): Cut[] => {
  const cuts: Cut[] = [];
  let end = text.length;
  // Backwards, because an expression says where it opens and a literal how long it is.
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

/** As `mapStrings`, but looks only. */
const eachString = (value: Json, depthMax: number, visit: (text: string) => void): void => {
  if (typeof value === 'string') {
    if (value.includes('{{')) visit(value);
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  if (depthMax === 0) throw tooDeep();
  for (const child of Object.values(value)) eachString(child, depthMax - 1, visit);
};

const collectOne = ({ head, offset, literal }: Expression, references: References): void => {
  try {
    const { placeholdersMax, tokensMax } = references.limits;
    references.placeholders = countPlaceholder(references.placeholders, placeholdersMax);
    if (literal !== undefined) return;
    const { id, whole } = parseTokenReference(head);
    if (references.mayUse === false) throw forbidden('token:use');
    references.ids.add(id);
    references.isWhole ||= whole;
    if (references.ids.size > tokensMax) throw tooManyTokens(references.limits);
  } catch (error) {
    throw locate(error, offset);
  }
};

const tooManyTokens = ({ tokensMax }: ExpansionLimits) =>
  new ExpressionError('too_many_tokens', `must refer to at most ${tokensMax} tokens`);

/** One request's expansion: its places share it, so that the limits hold for all of them together. */
export type Expansion = Evaluation & { readonly references: References };

/**
 * @param resolve a token's record by id; undefined for a token that is not there. Only where `whole` is true does the
 * expression see more of it than `data`.
 * @param references what was collected before, with its limits; bytes are those of the values put in, as they are put in.
 */
export const createExpansion = (
  resolve: (id: string, whole: boolean) => ExpansionRecord | undefined,
  environment: ExpressionEnvironment,
  references = createReferences(),
): Expansion => {
  const { limits } = references;
  const seen = new Set<string>();
  const valueOf = (expression: Expression): Json | undefined => {
    if (expression.literal !== undefined) return expression.literal;
    const { id, whole } = parseTokenReference(expression.head);
    // Counted again, for places that were not collected: what is not counted has no bound.
    if (seen.size === limits.tokensMax && !seen.has(id)) throw tooManyTokens(limits);
    seen.add(id);
    const record = resolve(id, whole);
    if (record === undefined) throw new ExpressionError('unknown_token', 'must refer to tokens that exist');
    if (whole) return record;
    return Object.hasOwn(record, 'data') ? record['data'] : undefined;
  };
  return { valueOf, environment, meter: createMeter(), limits, references };
};

/**
 * Puts tokens' values into a parsed JSON value, once: what a value contains is not looked at again. A string that is one
 * expression takes the value's JSON type; in longer strings values are concatenated, structure as compact JSON, null as
 * nothing. Object keys are never expanded. The input is not changed.
 * @throws ExpressionError; `too_large` means 413, every other code 400.
 */
export const expandJson = (value: Json, expansion: Expansion): Json =>
  mapStrings(value, JSON_DEPTH_MAX, (text) => evaluateTemplate(scan(text, expansion.references), expansion) ?? null) ??
  null;

/**
 * Puts tokens' values into a text, once.
 * @param encode fits a value's text to its place (percent-encoding, XML escapes), or refuses it by throwing.
 * @throws ExpressionError, as `expandJson`; and what `encode` throws.
 */
export const expandText = (text: string, encode: (value: string) => string, expansion: Expansion): string =>
  evaluateText(scan(text, expansion.references), expansion, encode);
