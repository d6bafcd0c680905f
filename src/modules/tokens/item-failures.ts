// What is wrong with single items of a partial batch, for its answer.
import { z } from 'zod';
import { fieldCodes } from '../../platform/json/problem-codes.ts';
import { byPath, type FieldCode, type FieldError, type FieldErrorCollector } from '../../platform/base/errors.ts';
import { formatPath } from '../../platform/json/json.ts';

// The answers to partial batches, for the OpenAPI document.

/** @param data the structure of the request, with null in place of each item that failed. */
export const partialResult = (data: z.ZodType, meta: { id: string; description: string }) =>
  z
    .object({
      data,
      errors: z.record(z.string(), z.array(z.string())).meta({
        description: `Messages about each item that failed, by the path of what is not valid; at most ${ITEM_ERRORS_MAX} in all. They never contain a value.`,
        example: { 'card.data.number': ['must have a valid check digit'] },
      }),
      codes: z.record(z.string(), z.array(z.string().meta({ 'x-extensible-enum': Object.keys(fieldCodes) }))).meta({
        description: 'A code for each message in `errors`: by the same paths, in the same order.',
        example: { 'card.data.number': ['check_digit'] },
      }),
      errors_total: z.int().meta({
        description: 'How many errors there are, also beyond those that are listed. 0: all is done.',
        example: 1,
      }),
    })
    .meta(meta);

/** Errors in one answer. More are counted. */
export const ITEM_ERRORS_MAX = 1_000;

/** The answer to a batch that is done in part. */
export type PartialAnswer<T> = {
  /** In the structure of the request, with null in place of each item that failed. */
  data: T;
  errors: Record<string, string[]>;
  codes: Record<string, FieldCode[]>;
  errors_total: number;
};

export type ItemFailures = {
  readonly total: number;
  add(path: readonly (string | number)[], sentence: string, code: FieldCode): void;
  /** Adds what was collected of one item. */
  addAll(problems: Pick<FieldErrorCollector, 'errors' | 'count'>): void;
  answer<T>(data: T): PartialAnswer<T>;
};

export const createItemFailures = (): ItemFailures => {
  const kept: FieldError[] = [];
  let total = 0;
  const addAll: ItemFailures['addAll'] = ({ errors, count }) => {
    total += count;
    kept.push(...errors.slice(0, ITEM_ERRORS_MAX - kept.length));
  };
  return {
    get total() {
      return total;
    },
    add: (path, sentence, code) => {
      total += 1;
      if (kept.length < ITEM_ERRORS_MAX) kept.push({ path: formatPath(path), sentence, code });
    },
    addAll,
    answer: (data) => ({ data, errors: byPath('sentence', kept), codes: byPath('code', kept), errors_total: total }),
  };
};
