// What a filter receives, and functions that read its value and arguments.
// Errors name the filter and what it expects, never the value it received.
import { ExpressionError } from './expression-error.ts';
import { clipName, type Json, valueAt } from '../../../platform/json/json.ts';
import { EXPANDED_BYTES_MAX, jsonSize, type Meter, spend, TOO_LARGE, WORK } from './meter.ts';
import { knownNames, nearestName } from '../../../platform/base/unknown-names.ts';

// What an expression refers to and the value does not have. Such a path is an error, unless the filter `default` follows or
// the tenant allows it: a typing error would otherwise send null (docs/decisions/0089-absent-paths.md).

/** The names that an object may have by its type. */
export type Known = {
  /** The object itself. */
  node: Json | undefined;
  /** The type, for errors: `the type card`. */
  what: string;
  names: readonly string[];
  /** A name whose value the caller may not see: it is null, and so is all below it. */
  hidden?: string | undefined;
  /** The error for a security code that is not there. */
  noSecurityCode?: string | undefined;
};

/** The name of a card's security code. */
const SECURITY_CODE = 'cvc';

const NO_SECURITY_CODE =
  'The token has no security code, or it has expired: `| default: nil` gives null in its place. CVC_TTL of the server says how long codes are kept.';

/** A path without a value, with the error for it. */
export class Absent {
  readonly error: ExpressionError;
  constructor(error: ExpressionError) {
    this.error = error;
  }
}

export type Steps = readonly (string | number)[];

/** The path is the client's own text. It is repeated, but no value is. */
const noValue = (what: string, path: string): Absent =>
  new Absent(new ExpressionError('absent_path', `${what} has no value at \`${clipName(path)}\``));

const formatSteps = (root: string, steps: Steps): string =>
  root +
  steps
    .map((step) => {
      if (typeof step === 'number') return `[${step}]`;
      return /^[A-Za-z_]\w*$/.test(step) ? `.${step}` : `['${step}']`;
    })
    .join('');

/** What an expression reads: the value, its name for errors, the root of its paths, and the objects whose names are known. */
type Subject = { value: Json | undefined; what: string; root: string; known: readonly Known[] };

/**
 * Follows steps from a value. @returns undefined for what the type has and this value lacks, and for what is hidden.
 */
export const findSteps = ({ value: from, what, root, known }: Subject, steps: Steps): Json | Absent | undefined => {
  const found = valueAt(from, steps);
  if (found !== undefined) return found;
  for (const [at, step] of steps.entries()) {
    const node = valueAt(from, steps.slice(0, at));
    if (valueAt(node, [step]) !== undefined) continue;
    const type = typeof node === 'object' ? known.find((each) => each.node === node) : undefined;
    if (!type || typeof step !== 'string') break;
    if (step === type.hidden) return undefined;
    const isLast = at === steps.length - 1;
    if (isLast && type.names.includes(step)) {
      if (step === SECURITY_CODE)
        return new Absent(new ExpressionError('no_security_code', type.noSecurityCode ?? NO_SECURITY_CODE));
      return undefined;
    }
    if (type.names.includes(step)) break;
    const nearest = nearestName(step, type.names);
    const before = steps.slice(0, at);
    const more =
      nearest === undefined
        ? knownNames(type.names)
        : `; did you mean \`${formatSteps(root, [...before, nearest, ...steps.slice(at + 1)])}\`?`;
    const path = clipName(formatSteps(root, steps));
    return new Absent(new ExpressionError('absent_path', `${type.what} has no \`${path}\`${more}`));
  }
  return noValue(what, formatSteps(root, steps));
};

/** For a path that is no plain list of steps. */
export const absentAt = (path: string): Absent => noValue('the value', path);

export type Literal = string | number | boolean | null;

/** One filter of an expression, as written. */
export type FilterCall = { name: string; args: Literal[] };

/** Functions that filters may call. */
export type ExpressionEnvironment = {
  /** A keyed digest. The key comes from the expression, never from the server. `algorithm` is sha1, sha256, sha384 or sha512. */
  hmac(algorithm: string, key: string, text: string, encoding?: 'hex' | 'base64' | 'base64url'): string;
  /** A random integer from 0 to below max. Absent where alias filters are not allowed. */
  randomInt?(max: number): number;
};

export type Call = {
  name: string;
  args: readonly Literal[];
  environment: ExpressionEnvironment;
  meter: Meter;
  /** The objects within the value whose names are known by their type. */
  known?: readonly Known[];
};

/** A digest as bytes, before an encoding filter writes it. */
export class Digest {
  readonly hex: string;
  constructor(hex: string) {
    this.hex = hex;
  }
}

export type Apply = (value: Json, call: Call) => Json | Digest | Absent;

export const PAD_LENGTH_MAX = 4096;

export const wrongType = ({ name }: Call, wanted: string) =>
  new ExpressionError('wrong_type', `must give the filter ${name} ${wanted}`);

export const badArgument = ({ name }: Pick<Call, 'name'>, wanted: string) =>
  new ExpressionError('bad_argument', `must give the filter ${name} ${wanted}`);

/** Checks a length before a text of that length is allocated. */
export const bounded = (length: number): void => {
  if (length > EXPANDED_BYTES_MAX) throw new ExpressionError('too_large', TOO_LARGE);
};

/** A value as text: strings as they are, null empty, everything else as compact JSON. Does not check the size. */
export const textOf = (value: Json): string => {
  if (typeof value === 'string') return value;
  return value === null ? '' : JSON.stringify(value);
};

/** The value, for a filter that reads text. */
export const text = (value: Json, call: Call): string => {
  if (typeof value !== 'string' && typeof value !== 'number') throw wrongType(call, 'a string');
  const content = String(value);
  spend(call.meter, content.length * WORK.character);
  return content;
};

/** Splits by code points, so that surrogate pairs stay whole. */
export const characters = (value: string, call: Call): string[] => {
  spend(call.meter, value.length * WORK.splitCharacter);
  return Array.from(value);
};

export const stringify = (value: Json, call: Call): string => {
  const { bytes, work } = jsonSize(value, EXPANDED_BYTES_MAX);
  bounded(bytes);
  spend(call.meter, work);
  return JSON.stringify(value);
};

export const wholeNumber = (call: Call, at: number, least: number, most: number, otherwise?: number): number => {
  const value = call.args[at] ?? otherwise;
  const number = typeof value === 'string' && /^-?[0-9]{1,9}$/.test(value) ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isInteger(number) || number < least || number > most)
    throw badArgument(call, `a whole number from ${least} to ${most}`);
  return number;
};

export const textArgument = (call: Call, at: number, otherwise?: string): string => {
  const value = call.args[at] ?? otherwise;
  if (typeof value !== 'string' && typeof value !== 'number') throw badArgument(call, 'a text as its argument');
  return String(value);
};

export const oneCharacter = (call: Call, at: number, otherwise: string): string => {
  const character = textArgument(call, at, otherwise);
  if (characters(character, call).length !== 1) throw badArgument(call, 'an argument of one character');
  return character;
};

export const yesOrNo = (call: Call, at: number, otherwise: boolean): boolean => {
  const value = call.args[at] ?? otherwise;
  if (value === true || value === 'true') return true;
  if (value === false || value === 'false') return false;
  throw badArgument(call, 'arguments of true or false');
};
