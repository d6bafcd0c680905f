// Writes a body as JSON or as a form, and refuses what would be dropped or changed in silence.
import { invalidInput } from './errors.ts';
import { isExpression } from './expressions.ts';

/** The server takes 64 levels. */
const DEPTH_MAX = 200;

const isPlain = (value: object): boolean => {
  const prototype = Object.getPrototypeOf(value) as unknown;
  // An object of another realm, as those of a test runner are, has an Object.prototype of its own, which has no prototype.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
};

const joinPath = (path: string, key: string): string => (path === '' ? key : `${path}.${key}`);

/**
 * @param operation for the error.
 * @param refusesBraces a string with `{{` is an error unless an expression made it: a text that others wrote must not read tokens.
 * @throws StrongroomError `invalid_input`, with the path, for what JSON has not: NaN, a number that a double does not hold,
 * `undefined` in a list, functions, and objects of classes.
 */
export const writeJson = (operation: string, body: unknown, refusesBraces: boolean): string => {
  const refuse = (path: string, text: string, code?: string): never => {
    throw invalidInput(operation, path === '' ? 'body' : path, text, code);
  };
  const convertObject = (value: object, path: string, depth: number): unknown => {
    if (isExpression(value)) return value.toString();
    if (Array.isArray(value)) return Array.from(value, (item, index) => convert(item, `${path}[${index}]`, depth + 1));
    if ('toJSON' in value && typeof value.toJSON === 'function') return convert(value.toJSON(), path, depth + 1);
    if (!isPlain(value)) refuse(path, 'must be a plain object: its class has no toJSON', 'wrong_type');
    const entries = Object.entries(value).filter(([, item]) => item !== undefined);
    return Object.fromEntries(entries.map(([key, item]) => [key, convert(item, joinPath(path, key), depth + 1)]));
  };
  const convert = (value: unknown, path: string, depth: number): unknown => {
    if (depth > DEPTH_MAX) refuse('', `must have at most ${DEPTH_MAX} levels`, 'too_deep');
    switch (typeof value) {
      case 'string':
        if (refusesBraces && value.includes('{{'))
          refuse(
            path,
            'has {{: make expressions with ref(token), or mark the text with expression(text)',
            'bad_expression',
          );
        return value;
      case 'bigint':
        if (Number.isSafeInteger(Number(value))) return Number(value);
        return refuse(path, 'would be changed by a double: send it as a string', 'inexact_number');
      case 'number':
        if (!Number.isFinite(value)) refuse(path, 'must be a finite number', 'wrong_type');
        // Whole numbers beyond 2^53 were rounded before they came here.
        if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21)
          refuse(path, 'would be changed by a double: send it as a string', 'inexact_number');
        return value;
      case 'object':
        return value === null ? null : convertObject(value, path, depth);
      case 'boolean':
        return value;
      default:
        return refuse(path, `must be JSON: ${typeof value} is not`, 'wrong_type');
    }
  };
  return JSON.stringify(convert(body, '', 0));
};

/** @throws StrongroomError `invalid_input` for what `writeJson` refuses, and for what is no text, number, boolean or list of these. */
export const writeForm = (operation: string, form: Record<string, unknown>): string => {
  const fields = JSON.parse(writeJson(operation, form, true)) as Record<string, unknown>;
  const pairs = Object.entries(fields).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((item: unknown): [string, string] => {
      if (typeof item === 'object')
        throw invalidInput(operation, name, 'must be a text, a number, a boolean or a list of these', 'wrong_type');
      return [name, String(item)];
    }),
  );
  return new URLSearchParams(pairs).toString();
};
