// The header SVC-DRY-RUN: a request is explained, and nothing of it is done.
import { invalidField } from '../../platform/base/errors.ts';

const HEADER = 'svc-dry-run';

/** A value that is misspelt must not do what it was to explain. @throws invalidField for any value but `true`. */
export const isDryRun = (values: readonly string[]): boolean => {
  if (values.length === 0) return false;
  if (values.some((value) => value !== 'true')) throw invalidField('SVC-DRY-RUN', 'must be true, or left out');
  return true;
};

/** @param headers by lower-case name. */
export const asksForDryRun = (headers: Readonly<Record<string, string | string[] | undefined>>): boolean =>
  isDryRun([headers[HEADER] ?? []].flat());

/** @param headers as they were sent, or as code sets them. */
export const asksForDryRunIn = (headers: readonly (readonly [name: string, value: string])[]): boolean =>
  isDryRun(headers.filter(([name]) => name.toLowerCase() === HEADER).map(([, value]) => value));
