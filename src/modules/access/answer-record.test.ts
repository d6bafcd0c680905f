import { expect, test } from 'vitest';
import { createAnswerRecord } from './answer-record.ts';

const row = (count: number) => ({
  operation: 'create' as const,
  entity_type: 'token',
  entity_ids: Array.from({ length: count }, (_, index) => `${index}`),
  message: 'Token created',
  disclosure: 'none' as const,
});

test('an answer with more entities in its rows than are kept is too large', () => {
  const record = createAnswerRecord();
  record.logged(row(20_000));
  expect(record.basis).toMatchObject({ isTooLarge: false, logged: [{ message: 'Token created' }] });
  record.logged(row(1));
  expect(record.basis.isTooLarge).toBe(true);
  expect(record.basis.logged).toHaveLength(1);
});

test('rows that were not written in the end take no room', () => {
  const record = createAnswerRecord();
  const undone = record.logged(row(20_000));
  record.notLogged(new Set([undone]));
  record.logged(row(20_000));
  expect(record.basis).toMatchObject({ isTooLarge: false });
  expect(record.basis.logged).toHaveLength(1);
});
