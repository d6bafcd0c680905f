// A token request, parsed: every field checked and every create-time expression evaluated, before anything is sealed.
// Pure but for the clock it is handed; all problems of a request are gathered, none of them holds a value.
import { z } from 'zod';
import { type FieldErrors, payloadTooLarge } from '../errors.ts';
import { parseContainer } from './containers.ts';
import { parseDate } from './dates.ts';
import { containerOfPrivacy, refuseUnknownAttributes } from './earlier-tokens.ts';
import { ExpressionError, type ExpressionErrorCode } from './expression-error.ts';
import {
  drawId,
  evaluateCreateTime,
  evaluateShape,
  type ExpressionEnvironment,
  scalarText,
  scanExpression,
} from './expressions.ts';
import { findJsonProblem, formatPath, isStorableText, type Json } from './json.ts';
import { createMeter, type Meter } from './meter.ts';
import { hiddenCharacter, notInTokenId, TOKEN_ID_LENGTH_MAX } from './token-id.ts';
import { findTokenType, tokenTypeNames, type TokenType } from './token-types.ts';

/** Limits of decisions.md section 2 and background.md section 1. */
export const EXPRESSION_LENGTH_MAX = 400;
export const SEARCH_INDEXES_MAX = 10;
export const METADATA_KEYS_MAX = 50;
export const METADATA_KEY_LENGTH_MAX = 200;
export const METADATA_VALUE_LENGTH_MAX = 500;

/** A path step; a problem's place is a list of them. */
type Path = readonly (string | number)[];

/** Gathers sentences under their paths. Bounded: a million bad leaves are as wrong as a hundred. */
export type Problems = {
  add(path: Path, sentence: string): void;
  /** Looks no further: what is left of the request would cost more than its problems are worth. */
  stop(): void;
  /** Whether nothing more need be looked at. The request is refused by then. */
  readonly stopped: boolean;
  readonly errors: FieldErrors;
  readonly count: number;
};

const PROBLEMS_MAX = 100;

/** A class: made for every token request, and a closure with accessors costs as much as parsing a card (measured). */
class GatheredProblems implements Problems {
  readonly errors = Object.create(null) as FieldErrors;
  count = 0;
  #isStopped = false;

  add(path: Path, sentence: string): void {
    this.count += 1;
    if (this.count <= PROBLEMS_MAX) (this.errors[formatPath(path)] ??= []).push(sentence);
  }

  stop(): void {
    this.#isStopped = true;
  }

  get stopped(): boolean {
    return this.#isStopped || this.count >= PROBLEMS_MAX;
  }
}

export const createProblems = (): Problems => new GatheredProblems();

const storable = (maxLength: number) =>
  z
    .string('must be a string')
    .max(maxLength, `must be at most ${maxLength} characters`)
    .refine(isStorableText, 'must be text without NUL or half surrogate pairs');

const expression = storable(EXPRESSION_LENGTH_MAX).min(1, 'must not be empty');

/** What a caller may choose as an id: 3 to 400 characters that survive a URL path. */
export const chosenTokenId = storable(TOKEN_ID_LENGTH_MAX)
  .min(3, 'must be at least 3 characters')
  .refine((text) => text !== 'search', 'must not be search, which is a path of its own')
  .refine((text) => !notInTokenId.test(text), 'must not contain # / \\ + ? [ ] | & = % < > { } ^')
  .refine((text) => !hiddenCharacter.test(text), 'must not contain line ends, controls or hidden characters');

const container = storable(EXPRESSION_LENGTH_MAX).transform((text, ctx) => {
  const parsed = parseContainer(text);
  if (parsed === undefined) ctx.addIssue('must be a container path such as /pci/high/');
  return parsed ?? z.NEVER;
});

/** Letters, digits, dots, dashes and underscores: a key can be named in a query and in a search. */
export const metadataKey = /^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?$/;

const badMetadataKey = `must have keys of 1 to ${METADATA_KEY_LENGTH_MAX} letters, digits, dots, dashes and underscores, with no dot and no dash at either end`;

const metadata = z
  .record(z.string().max(METADATA_KEY_LENGTH_MAX).regex(metadataKey), storable(METADATA_VALUE_LENGTH_MAX), {
    error: ({ code }) => (code === 'invalid_key' ? badMetadataKey : 'must be an object of strings'),
  })
  .refine((map) => Object.keys(map).length <= METADATA_KEYS_MAX, `must have at most ${METADATA_KEYS_MAX} keys`);

const expiresAt = z.string('must be a date').transform((text, ctx) => {
  const date = parseDate(text);
  if (date === undefined) ctx.addIssue('must be a date such as 2030-09-27T19:23:57Z');
  return date ?? z.NEVER;
});

const oneContainer = 'must be an array of one container path';

/** The fields beside `type`, `data` and `mask`. Null counts as absent. */
const fields = z.object({
  id: z.string('must be a string').nullish(),
  // None counts as absent: clients in some languages send every list that they know.
  containers: z.array(container, oneContainer).max(1, oneContainer).nullish(),
  metadata: metadata.nullish(),
  search_indexes: z
    .array(expression, 'must be an array of expressions')
    .max(SEARCH_INDEXES_MAX, `must have at most ${SEARCH_INDEXES_MAX} expressions`)
    .nullish(),
  fingerprint_expression: expression.nullish(),
  deduplicate_token: z.boolean('must be true or false').nullish(),
  expires_at: expiresAt.nullish(),
});

const knownNames: ReadonlySet<string> = new Set(['type', 'data', 'mask', ...Object.keys(fields.shape)]);

/** A token about to be: checked, its expressions evaluated, nothing sealed yet. Holds plaintext. */
export type Draft = {
  type: TokenType;
  /** Without the CVC. */
  data: Json;
  cvc: string | undefined;
  /** The caller's mask; undefined where the type's default stands. */
  mask: Json | undefined;
  /** What `data` looks like from outside; undefined without any mask. */
  masked: Json | undefined;
  id: string | undefined;
  /** Where the id is an alias: draws it, under the request's meter; undefined where none can be made, or where no work is left to draw with. */
  drawId?: (() => string | undefined) | undefined;
  container: string;
  metadata: Record<string, string> | undefined;
  fingerprint_expression: string;
  fingerprintValue: string;
  search_indexes: readonly string[];
  searchValues: readonly string[];
  /** Undefined: as the tenant's setting says. */
  deduplicate: boolean | undefined;
  expires_at: Date | undefined;
};

/** What drafts are made with. The meter is the request's: all its expressions pay into one. */
export type DraftTools = { now: () => Date; environment: ExpressionEnvironment; meter: Meter };

/** After these there is nothing left to evaluate another expression with. */
const spentCodes: readonly ExpressionErrorCode[] = ['too_complex', 'too_many_placeholders'];

/**
 * Turns what is wrong with an expression into a problem of its place.
 * @throws payloadTooLarge where values grow too large: that is no fault of one place.
 */
const guard = <T>(problems: Problems, path: Path, work: () => T): T | undefined => {
  if (problems.stopped) return undefined;
  try {
    return work();
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    if (error.code === 'too_large') throw payloadTooLarge(`The expressions ${error.message}.`);
    problems.add(path, error.message);
    if (spentCodes.includes(error.code)) problems.stop();
    return undefined;
  }
};

const zodProblems = (problems: Problems, path: Path, error: z.ZodError): void => {
  for (const issue of error.issues) problems.add([...path, ...(issue.path as (string | number)[])], issue.message);
};

const NO_SINGLE_VALUE = 'must have one value that is not empty';

/** A plain leaf of a tokenize body as the draft of a generic token. */
export const draftOfLeaf = (type: TokenType, data: string | number | boolean): Draft => ({
  type,
  data,
  cvc: undefined,
  mask: undefined,
  masked: undefined,
  id: undefined,
  container: type.container,
  metadata: undefined,
  fingerprint_expression: type.fingerprint_expression,
  fingerprintValue: type.fingerprintOf(data),
  search_indexes: type.search_indexes,
  searchValues: [],
  deduplicate: undefined,
  expires_at: undefined,
});

/**
 * Parses an object that has `data`, and possibly `type`, into a draft.
 * @param path where the object stands in the body, for the problems.
 * @returns undefined where a problem was added.
 */
export const parseTokenRequest = (
  request: Record<string, Json>,
  path: Path,
  problems: Problems,
  tools: DraftTools,
): Draft | undefined => {
  if (problems.stopped) return undefined;
  const before = problems.count;
  // Null is no type: a card whose type got lost on the way must not become a generic token, which has no mask.
  const typeName = request['type'] === undefined ? 'token' : request['type'];
  const type = typeof typeName === 'string' ? findTokenType(typeName) : undefined;
  if (!type) {
    problems.add([...path, 'type'], `must be one of ${tokenTypeNames.join(', ')}`);
    return undefined;
  }
  refuseUnknownAttributes(request, knownNames, path, problems);
  const privacyContainer = containerOfPrivacy(request, type.container, path, problems);
  const data = type.data.safeParse(request['data']);
  if (!data.success) zodProblems(problems, [...path, 'data'], data.error);
  const rest = fields.safeParse(request);
  if (!rest.success) zodProblems(problems, path, rest.error);
  for (const name of ['data', 'mask'] as const) {
    const inexact = request[name] === undefined ? undefined : findJsonProblem(request[name]);
    if (inexact) problems.add([...path, name, ...inexact.path], inexact.sentence);
  }
  if (!data.success || !rest.success || problems.count > before) return undefined;
  if (privacyContainer !== undefined) rest.data.containers = [privacyContainer];
  return evaluate(type, data.data, request['mask'] ?? undefined, rest.data, path, problems, tools);
};

const evaluate = (
  type: TokenType,
  parsed: Json,
  mask: Json | undefined,
  rest: z.infer<typeof fields>,
  path: Path,
  problems: Problems,
  tools: DraftTools,
): Draft | undefined => {
  const { now, environment, meter } = tools;
  const before = problems.count;
  const { data, cvc } = splitCvc(type, parsed);
  const scope = { data, metadata: rest.metadata ?? undefined };
  const masked =
    mask === undefined
      ? type.maskedOf(data)
      : guard(problems, [...path, 'mask'], () => evaluateShape(mask, { data }, environment, meter));

  const fingerprint_expression = rest.fingerprint_expression ?? type.fingerprint_expression;
  let fingerprintValue: string | undefined;
  if (fingerprint_expression === type.fingerprint_expression) fingerprintValue = type.fingerprintOf(data);
  else {
    const place = [...path, 'fingerprint_expression'];
    guard(problems, place, () => {
      const template = scanExpression(fingerprint_expression, 'fingerprint', meter);
      fingerprintValue = scalarText(evaluateCreateTime(template, scope, environment, meter));
      if (fingerprintValue === undefined) problems.add(place, NO_SINGLE_VALUE);
    });
  }

  const search_indexes = rest.search_indexes ?? type.search_indexes;
  // A type's own expressions read data that the type bounds: 10,000 values of one type leave the request's meter alone.
  const indexMeter = search_indexes === type.search_indexes ? createMeter() : meter;
  const searchValues: string[] = [];
  for (const [index, text] of search_indexes.entries()) {
    const place = [...path, 'search_indexes', index];
    guard(problems, place, () => {
      const template = scanExpression(text, 'index', indexMeter);
      const value = scalarText(evaluateCreateTime(template, { data }, environment, indexMeter));
      if (value === undefined) problems.add(place, NO_SINGLE_VALUE);
      else searchValues.push(value);
    });
  }

  const { id, drawId: drawNext } = parseId(rest.id ?? undefined, data, path, problems, tools);
  if (rest.expires_at && rest.expires_at <= now()) problems.add([...path, 'expires_at'], 'must be in the future');
  if (problems.count > before || fingerprintValue === undefined) return undefined;
  return {
    type,
    data,
    cvc,
    mask,
    masked,
    id,
    drawId: drawNext,
    container: rest.containers?.[0] ?? type.container,
    metadata: rest.metadata ?? undefined,
    fingerprint_expression,
    fingerprintValue,
    search_indexes,
    searchValues,
    deduplicate: rest.deduplicate_token ?? undefined,
    expires_at: rest.expires_at ?? undefined,
  };
};

const splitCvc = (type: TokenType, parsed: Json): { data: Json; cvc: string | undefined } => {
  if (type.name !== 'card') return { data: parsed, cvc: undefined };
  const { cvc, ...data } = parsed as { number: string; cvc?: string };
  return { data, cvc };
};

/** An id is chosen as it stands, or an alias expression. One is drawn here, so that what cannot be an id is a problem. */
const parseId = (
  text: string | undefined,
  data: Json,
  path: Path,
  problems: Problems,
  { environment, meter }: DraftTools,
): Pick<Partial<Draft>, 'id' | 'drawId'> => {
  if (text === undefined) return {};
  const place = [...path, 'id'];
  if (!text.includes('{{')) {
    const id = chosenTokenId.safeParse(text);
    if (id.success) return { id: id.data };
    zodProblems(problems, place, id.error);
    return {};
  }
  const drawn = guard(problems, place, () => {
    const alias = scanExpression(text, 'alias', meter);
    const draw = () => {
      const id = chosenTokenId.safeParse(drawId(alias, data, environment, meter));
      return id.success ? id.data : undefined;
    };
    let first = draw();
    if (first === undefined)
      problems.add(place, 'must make an id of 3 to 400 characters without # / \\ + ? [ ] | & = % < > { } ^');
    const drawNext = () => {
      const id = first ?? drawOrNothing(draw);
      first = undefined;
      return id;
    };
    return { drawId: drawNext };
  });
  return drawn ?? {};
};

/** A draw after the first: when its id is taken, another is welcome and none is no error. */
const drawOrNothing = (draw: () => string | undefined): string | undefined => {
  try {
    return draw();
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    return undefined;
  }
};
