// What an expression refers to and the value does not have. Such a path is an error, unless the filter `default` follows or
// the tenant allows it: a typing error would otherwise send null (docs/decisions/0089-absent-paths.md).
import { ExpressionError } from './expression-error.ts';
import { clipName, type Json, valueAt } from '../../../platform/json/json.ts';
import { knownNames, nearestName } from '../../../platform/base/unknown-names.ts';

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
export type Subject = { value: Json | undefined; what: string; root: string; known: readonly Known[] };

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
