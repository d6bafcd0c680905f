// Sentences and codes for values that do not fit a schema. No text of the library reaches a client.
import type { z } from 'zod';
import type { FieldError } from '../base/errors.ts';
import { formatPath, type Json, NOT_STORABLE, valueAt } from '../json/json.ts';
import type { FieldCode } from '../json/problem-codes.ts';

const types: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'an integer',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
  record: 'an object',
  date: 'a date',
};

const units: Readonly<Record<string, string>> = { string: ' characters', array: ' items', set: ' items' };

/** For schemas without a sentence of their own. */
export const sentenceOf = (issue: z.core.$ZodRawIssue): string => {
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return 'is needed';
      return `must be ${types[issue.expected] ?? 'of another type'}`;
    case 'too_small':
      return `must be at least ${issue.minimum}${units[issue.origin] ?? ''}`;
    case 'too_big':
      return `must be at most ${issue.maximum}${units[issue.origin] ?? ''}`;
    case 'invalid_value':
      return `must be one of ${issue.values.map(String).join(', ')}`;
    case 'unrecognized_keys':
      return 'must have known attributes only';
    default:
      return 'is not valid';
  }
};

const codes: Readonly<Partial<Record<z.core.$ZodIssue['code'], FieldCode>>> = {
  invalid_type: 'wrong_type',
  invalid_value: 'not_allowed',
  too_small: 'too_small',
  too_big: 'too_large',
  unrecognized_keys: 'unknown_name',
};

/**
 * What is wrong where an input does not fit its schema. A `refine` may name its code: `params: { code }`.
 * @param input as it was given to the schema.
 */
export const toFieldError = (issue: z.core.$ZodIssue, input: unknown): FieldError => {
  const path = issue.path as (string | number)[];
  const { code: kind, message: sentence } = issue;
  const isAbsent = (kind === 'invalid_type' || kind === 'invalid_value') && valueAt(input as Json, path) === undefined;
  const ownCode = issue.code === 'custom' ? (issue.params?.['code'] as FieldCode | undefined) : undefined;
  const known = sentence === NOT_STORABLE ? 'not_storable' : (ownCode ?? codes[kind] ?? 'invalid');
  return { path: formatPath(path), sentence, code: isAbsent ? 'required' : known };
};
