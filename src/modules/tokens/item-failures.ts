// What is wrong with single items of a partial batch, for its answer.
import { byPath, type FieldCode, type FieldError, type FieldErrorCollector } from '../../platform/base/errors.ts';
import { formatPath } from '../../platform/json/json.ts';

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
