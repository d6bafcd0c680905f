// Validates a token request and evaluates its create-time expressions, before anything is sealed.
// It reports all problems of a request at once. No problem holds a value.
import { z } from 'zod';
import { type FieldErrorCollector, payloadTooLarge } from '../../platform/base/errors.ts';
import type { AskedBound } from '../access/bound-targets.ts';
import { boundSchema } from '../access/bounds.ts';
import { isPlainName } from '../access/names.ts';
import { CONTAINER_LENGTH_MAX, parseContainer } from '../access/containers.ts';
import { parseDate } from '../../platform/json/dates.ts';
import { containerOfPrivacy, refuseUnknownAttributes } from './earlier-tokens.ts';
import { ExpressionError, type ExpressionErrorCode } from './expressions/expression-error.ts';
import {
  drawId,
  evaluateCreateTime,
  evaluateShape,
  type ExpressionEnvironment,
  scalarText,
  scanExpression,
  STORED_EXPRESSION_LENGTH_MAX,
  type Strictness,
} from './expressions/expressions.ts';
import { toFieldError } from '../../platform/http/sentences.ts';
import { isStorableText, type Json, NOT_STORABLE } from '../../platform/json/json.ts';
import { findJsonProblem } from '../../platform/json/problem-codes.ts';
import { unknownName } from '../../platform/base/unknown-names.ts';
import { runAtOnce, type Slices } from '../../platform/json/slices.ts';
import { createMeter, type Meter } from './expressions/meter.ts';
import {
  hiddenCharacter,
  INTENT_PREFIX,
  isIntentId,
  notInTokenId,
  TOKEN_ID_EXCLUDED,
  TOKEN_ID_LENGTH_MAX,
  TOKEN_ID_LENGTH_MIN,
  TOKEN_PREFIX,
} from '../access/token-id.ts';
import { checkPublicDraft, refuseOfPublic } from './public-drafts.ts';
import { findTokenType, tokenTypeNames, type TokenType } from './token-types.ts';
import type { PublicAccess } from '../access/caller.ts';

export const SEARCH_INDEXES_MAX = 10;
export const METADATA_KEYS_MAX = 50;
export const METADATA_KEY_LENGTH_MAX = 200;
export const METADATA_VALUE_LENGTH_MAX = 500;

/** The steps to a value within the body, for problems. */
type Path = readonly (string | number)[];

const storable = (maxLength: number) =>
  z
    .string('must be a string')
    .max(maxLength, `must be at most ${maxLength} characters`)
    .refine(isStorableText, NOT_STORABLE);

const expression = storable(STORED_EXPRESSION_LENGTH_MAX).min(1, 'must not be empty');

/** An id that a client chooses: 3 to 400 characters that a URL path, an expression and a search can carry unchanged. */
export const chosenTokenId = storable(TOKEN_ID_LENGTH_MAX)
  .min(TOKEN_ID_LENGTH_MIN, `must be at least ${TOKEN_ID_LENGTH_MIN} characters`)
  .refine((text) => text !== 'search', 'must not be search, which is a path of its own')
  .refine((text) => !/^\p{Zs}|\p{Zs}$/u.test(text), 'must not have blanks at its ends')
  .refine((text) => !text.startsWith(TOKEN_PREFIX), `must not begin with ${TOKEN_PREFIX}`)
  .refine((text) => !isIntentId(text), `must not begin with ${INTENT_PREFIX}`)
  .refine((text) => !notInTokenId.test(text), `must not contain ${TOKEN_ID_EXCLUDED}`)
  .refine((text) => !hiddenCharacter.test(text), 'must not contain line ends, controls or hidden characters');

const container = storable(CONTAINER_LENGTH_MAX).transform((text, ctx) => {
  const parsed = parseContainer(text);
  if (parsed === undefined) ctx.addIssue('must be a container path such as /pci/high/');
  return parsed ?? z.NEVER;
});

/** A search puts a key between quotation marks where it has other characters than letters and digits. */
export const isMetadataKey = (key: string): boolean =>
  key.length <= METADATA_KEY_LENGTH_MAX && isPlainName(key) && key !== '__proto__';

const badMetadataKey = `must have keys of 1 to ${METADATA_KEY_LENGTH_MAX} characters, without blanks at their ends, line ends and other control characters`;

/** Metadata of a token: a map of texts. How many there may be is checked before: see `entriesMax`. */
export const metadataSchema = z.record(z.string().refine(isMetadataKey), storable(METADATA_VALUE_LENGTH_MAX), {
  error: ({ code }) => (code === 'invalid_key' ? badMetadataKey : 'must be an object of strings'),
});

const expiresAt = z.string('must be a date').transform((text, ctx) => {
  const date = parseDate(text);
  if (date === undefined) ctx.addIssue('must be a date such as 2030-09-27T19:23:57Z');
  return date ?? z.NEVER;
});

const oneContainer = 'must be an array of one container path';

/** The fields other than `type`, `data` and `mask`. Null counts as absent. */
const fields = z.object({
  id: z.string('must be a string').nullish(),
  // An empty list counts as absent: clients in some languages send every list attribute.
  containers: z.array(container, oneContainer).nullish(),
  metadata: metadataSchema.nullish(),
  search_indexes: z.array(expression, 'must be an array of expressions').nullish(),
  fingerprint_expression: expression.nullish(),
  deduplicate_token: z.boolean('must be true or false').nullish(),
  expires_at: expiresAt.nullish(),
  bound_to: boundSchema.nullish(),
});

const knownNames: ReadonlySet<string> = new Set(['type', 'data', 'mask', ...Object.keys(fields.shape)]);

/** A valid token request: expressions are evaluated, nothing is sealed. Holds plaintext. */
export type Draft = {
  type: TokenType;
  /** Without the security code. */
  data: Json;
  cvc: string | undefined;
  /** The mask of the request; undefined for the default of the type. */
  mask: Json | undefined;
  /** The evaluated mask; undefined without any mask. */
  masked: Json | undefined;
  id: string | undefined;
  /** For an alias expression: generates an id. Returns undefined if none can be made or the request's meter is spent. */
  drawId?: (() => string | undefined) | undefined;
  container: string;
  metadata: Record<string, string> | undefined;
  fingerprint_expression: string;
  fingerprintValue: string;
  search_indexes: readonly string[];
  searchValues: readonly string[];
  /** Undefined: the setting of the tenant. */
  deduplicate: boolean | undefined;
  expires_at: Date | undefined;
  /** Bound as it was asked for: nothing that it names was looked up. */
  bound_to: AskedBound | undefined;
};

/** All expressions of a request share one meter. `publicAccess` is that of the caller. */
export type DraftTools = {
  now: () => Date;
  environment: ExpressionEnvironment;
  meter: Meter;
  publicAccess?: PublicAccess | undefined;
  /** Whether an expression may refer to what the data has not. */
  allowsAbsentPaths?: boolean;
};

/** Errors that spend the limits of the whole request: further expressions are not evaluated. */
const spentCodes: readonly ExpressionErrorCode[] = ['too_complex', 'too_many_placeholders'];

/**
 * Runs work and reports its expression error as a problem at that path.
 * @throws payloadTooLarge where values grow too large: no single place is at fault.
 */
const guard = <T>(problems: FieldErrorCollector, path: Path, work: () => T): T | undefined => {
  if (problems.stopped) return undefined;
  try {
    return work();
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    if (error.code === 'too_large') throw payloadTooLarge(`The expressions ${error.message}.`);
    problems.add(path, error.message, 'bad_expression');
    if (spentCodes.includes(error.code)) problems.stop();
    return undefined;
  }
};

const zodProblem = (problems: FieldErrorCollector, path: Path, issue: z.core.$ZodIssue, input: unknown): void => {
  const { sentence, code } = toFieldError(issue, input);
  problems.add([...path, ...(issue.path as (string | number)[])], sentence, code);
};

const zodProblems = (problems: FieldErrorCollector, path: Path, error: z.ZodError, input: unknown): void => {
  for (const issue of error.issues) zodProblem(problems, path, issue, input);
};

/** Each unknown attribute has a problem of its own, with the nearest name: clients of other vaults write `exp_month`. */
const dataProblems = (
  problems: FieldErrorCollector,
  path: Path,
  error: z.ZodError,
  data: unknown,
  { names }: TokenType,
): void => {
  for (const issue of error.issues) {
    if (issue.code !== 'unrecognized_keys') zodProblem(problems, path, issue, data);
    else
      for (const name of issue.keys) {
        if (problems.stopped) return;
        problems.add([...path, name], unknownName(name, names), 'unknown_name');
      }
  }
};

/** Attributes with a limit on their entries: too many are refused before each is checked. */
const entriesMax: [name: string, entriesMax: number, sentence: string][] = [
  ['metadata', METADATA_KEYS_MAX, `must have at most ${METADATA_KEYS_MAX} keys`],
  ['search_indexes', SEARCH_INDEXES_MAX, `must have at most ${SEARCH_INDEXES_MAX} expressions`],
  ['containers', 1, oneContainer],
];

const hasMany = (value: Json | undefined, most: number): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).length > most;

const refuseManyEntries = (request: Record<string, Json>, path: Path, problems: FieldErrorCollector): void => {
  for (const [name, most, sentence] of entriesMax)
    if (hasMany(request[name], most)) problems.add([...path, name], sentence, 'too_large');
};

const withoutMany = (request: Record<string, Json>): Record<string, Json> => {
  const rest = { ...request };
  for (const [name, most] of entriesMax) if (hasMany(rest[name], most)) delete rest[name];
  return rest;
};

const NO_SINGLE_VALUE = 'must have one value that is not empty';

/** The draft of a generic token, for a plain value in a tokenize body. */
const draftOfLeaf = (type: TokenType, data: string | number | boolean): Draft => ({
  type,
  data,
  cvc: undefined,
  mask: undefined,
  masked: undefined,
  id: undefined,
  container: type.container,
  metadata: undefined,
  fingerprint_expression: type.fingerprint_expression,
  fingerprintValue: runAtOnce(type.fingerprintOf(data)),
  search_indexes: type.search_indexes,
  searchValues: [],
  deduplicate: undefined,
  expires_at: undefined,
  bound_to: undefined,
});

/**
 * Makes a draft of a generic token from a plain value in a tokenize body.
 * @returns undefined where a problem was added.
 */
export const parseLeaf = (
  type: TokenType,
  data: string | number | boolean,
  path: Path,
  problems: FieldErrorCollector,
  { publicAccess, now }: DraftTools,
): Draft | undefined => {
  const draft = draftOfLeaf(type, data);
  return publicAccess ? checkPublicDraft(draft, publicAccess, now(), path, problems) : draft;
};

/**
 * Parses an object that has `data`, and possibly `type`, into a draft.
 * @param path the place of the object within the body, for problems.
 * Pauses between the steps, each of which reads all of the data.
 * @returns undefined where a problem was added.
 */
export function* parseTokenRequest(
  request: Record<string, Json>,
  path: Path,
  problems: FieldErrorCollector,
  tools: DraftTools,
): Slices<Draft | undefined> {
  if (problems.stopped) return undefined;
  const before = problems.count;
  // Null is an invalid type: a card whose type was lost must not become a generic token, which has no mask.
  const typeName = request['type'] === undefined ? 'token' : request['type'];
  const type = typeof typeName === 'string' ? findTokenType(typeName) : undefined;
  if (!type) {
    problems.add([...path, 'type'], `must be one of ${tokenTypeNames.join(', ')}`, 'not_allowed');
    return undefined;
  }
  refuseUnknownAttributes(request, knownNames, path, problems);
  if (tools.publicAccess) refuseOfPublic(request, knownNames, path, problems);
  refuseManyEntries(request, path, problems);
  if (problems.stopped) return undefined;
  const privacyContainer = containerOfPrivacy(request, type.container, path, problems);
  const data = type.data.safeParse(request['data']);
  if (!data.success) dataProblems(problems, [...path, 'data'], data.error, request['data'], type);
  yield;
  const rest = fields.safeParse(problems.count > before ? withoutMany(request) : request);
  if (!rest.success) zodProblems(problems, path, rest.error, request);
  for (const name of ['data', 'mask'] as const) {
    yield;
    const inexact = request[name] === undefined ? undefined : yield* findJsonProblem(request[name]);
    if (inexact) problems.add([...path, name, ...inexact.path], inexact.sentence, inexact.code);
  }
  if (!data.success || !rest.success || problems.count > before) return undefined;
  if (privacyContainer !== undefined) rest.data.containers = [privacyContainer];
  yield;
  const draft = yield* evaluate(type, data.data, request['mask'] ?? undefined, rest.data, path, problems, tools);
  if (!draft || !tools.publicAccess) return draft;
  const checked = checkPublicDraft(draft, tools.publicAccess, tools.now(), path, problems);
  if (!hasMany(checked?.metadata, METADATA_KEYS_MAX)) return checked;
  problems.add(
    [...path, 'metadata'],
    `must have at most ${METADATA_KEYS_MAX} keys, with those of the session`,
    'too_large',
  );
  return undefined;
}

function* evaluate(
  type: TokenType,
  parsed: Json,
  mask: Json | undefined,
  rest: z.infer<typeof fields>,
  path: Path,
  problems: FieldErrorCollector,
  tools: DraftTools,
): Slices<Draft | undefined> {
  const { now, environment, meter } = tools;
  const strictness = strictnessOf(type, tools);
  const before = problems.count;
  const { data, cvc } = splitCvc(type, parsed);
  const scope = { data, metadata: rest.metadata ?? undefined };
  const masked =
    mask === undefined
      ? type.maskedOf(data)
      : guard(problems, [...path, 'mask'], () => evaluateShape(mask, { data }, environment, meter, strictness));

  const fingerprint_expression = rest.fingerprint_expression ?? type.fingerprint_expression;
  let fingerprintValue: string | undefined;
  if (fingerprint_expression === type.fingerprint_expression) fingerprintValue = yield* type.fingerprintOf(data);
  else {
    const place = [...path, 'fingerprint_expression'];
    guard(problems, place, () => {
      const template = scanExpression(fingerprint_expression, 'fingerprint', meter);
      fingerprintValue = scalarText(evaluateCreateTime(template, scope, environment, meter, strictness));
      if (fingerprintValue === undefined) problems.add(place, NO_SINGLE_VALUE, 'bad_expression');
    });
  }

  const search_indexes = rest.search_indexes ?? type.search_indexes;
  // The expressions of a type read data of bounded size. They do not spend the request's meter, so that 10,000 values pass.
  const indexMeter = search_indexes === type.search_indexes ? createMeter() : meter;
  const searchValues: string[] = [];
  for (const [index, text] of search_indexes.entries()) {
    const place = [...path, 'search_indexes', index];
    guard(problems, place, () => {
      const template = scanExpression(text, 'index', indexMeter);
      const value = scalarText(evaluateCreateTime(template, { data }, environment, indexMeter, strictness));
      if (value === undefined) problems.add(place, NO_SINGLE_VALUE, 'bad_expression');
      else searchValues.push(value);
    });
  }

  const { id, drawId: drawNext } = parseId(rest.id ?? undefined, data, path, problems, { ...tools, strictness });
  if (rest.expires_at && rest.expires_at <= now())
    problems.add([...path, 'expires_at'], 'must be in the future', 'in_the_past');
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
    bound_to: rest.bound_to ? { bound: rest.bound_to, path: [...path, 'bound_to'] } : undefined,
  };
}

const strictnessOf = (type: TokenType, { allowsAbsentPaths }: DraftTools): Strictness => ({
  isStrict: !allowsAbsentPaths,
  typed:
    type.names.length === 0
      ? undefined
      : { what: `the type ${type.name}`, names: type.names, noSecurityCode: 'must not refer to the security code' },
});

const splitCvc = (type: TokenType, parsed: Json): { data: Json; cvc: string | undefined } => {
  if (type.name !== 'card') return { data: parsed, cvc: undefined };
  const { cvc, ...data } = parsed as { number: string; cvc?: string };
  return { data, cvc };
};

/** Parses an id or an alias expression. Generates one alias at once, so that an invalid one is reported as a problem. */
const parseId = (
  text: string | undefined,
  data: Json,
  path: Path,
  problems: FieldErrorCollector,
  { environment, meter, strictness }: DraftTools & { strictness: Strictness },
): Pick<Partial<Draft>, 'id' | 'drawId'> => {
  if (text === undefined) return {};
  const place = [...path, 'id'];
  if (!text.includes('{{')) {
    const id = chosenTokenId.safeParse(text);
    if (id.success) return { id: id.data };
    zodProblems(problems, place, id.error, text);
    return {};
  }
  const drawn = guard(problems, place, () => {
    const alias = scanExpression(text, 'alias', meter);
    const draw = () => {
      const id = chosenTokenId.safeParse(drawId(alias, data, environment, meter, strictness));
      return id.success ? id.data : undefined;
    };
    let first = draw();
    if (first === undefined)
      problems.add(
        place,
        `must make an id of ${TOKEN_ID_LENGTH_MIN} to ${TOKEN_ID_LENGTH_MAX} characters without ${TOKEN_ID_EXCLUDED} and without blanks at its ends`,
        'bad_expression',
      );
    const drawNext = () => {
      const id = first ?? tryDraw(draw);
      first = undefined;
      return id;
    };
    return { drawId: drawNext };
  });
  return drawn ?? {};
};

/** Generates a further alias, after the first id was in use. A failure is no error: the caller falls back to a UUID. */
const tryDraw = (draw: () => string | undefined): string | undefined => {
  try {
    return draw();
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    return undefined;
  }
};
