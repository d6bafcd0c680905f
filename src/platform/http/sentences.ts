// Sentences for values that do not fit a schema which has no sentence of its own. No text of the library reaches a client.
import type { z } from 'zod';

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
