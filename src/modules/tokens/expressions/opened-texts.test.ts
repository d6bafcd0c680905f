// Texts of opened tokens are not read as expressions; other texts are.
import { describe, expect, test } from 'vitest';
import { AppError } from '../../../platform/base/errors.ts';
import type { Json } from '../../../platform/json/json.ts';
import { runAtOnce } from '../../../platform/json/slices.ts';
import { createOpenedTexts, OPENED_TEXTS_MAX } from './opened-texts.ts';

const isRefused = (seen: Json[], body: Json): boolean => {
  const opened = createOpenedTexts();
  for (const value of seen) runAtOnce(opened.add(value));
  try {
    runAtOnce(opened.refuseIn(body));
    return false;
  } catch (error) {
    expect(error).toBeInstanceOf(AppError);
    return true;
  }
};

test.each<[Json[], Json]>([
  [['{{ pan }}'], '{{ pan }}'],
  [[{ '{{ pan }}': 1 }], ['{{ pan }}']],
  [[[{ a: { 'see {{ pan }}': null } }]], { b: '{{ pan }}' }],
  [['{{ pan'], '{{ pan }}'],
  [['{', '{ pan'], '{{ pan }}'],
  [['{ pan }} and more', 'a{'], '{{ pan }}'],
  [['{', 'pan }}'], '{{ pan }}'],
  [['{{{ pan }}}'], '{{ pan }}'],
  [["{{ other | default: '{{ pan }}' }}"], '{{ pan }}'],
  [['{{ pan }'], '{{ pan }}'],
  [['{{'], '{{ pan }}'],
  [["{{ pan['}}"], "{{ pan['}}'] }}"],
])('what came out of %j is refused in %j', (seen, body) => {
  expect(isRefused(seen, body)).toBe(true);
});

test.each<[Json[], Json]>([
  [['{{ other }}'], '{{ pan }}'],
  [['{{'.repeat(1000) + ' end'], '{{ pan }}'],
  [['{{ pan }} '.repeat(5000)], '{{ another }}'],
])('what came out of no text of %j is allowed in %j', (seen, body) => {
  expect(isRefused(seen, body)).toBe(false);
});

test('a text whose quotes hide many expressions refuses every expression', () => {
  expect(isRefused(["{{'['".repeat(10_000)], '{{ pan }}')).toBe(true);
});

describe('a value that ends in one brace', () => {
  test.each<[Json[]]>([[['{']], [['a {', '{']], [['{', '{"a":1}', '{}']], [['{', '{ other }}']]])(
    'refuses no expression of the code itself, as %j',
    (seen) => expect(isRefused(seen, '{{ pan }}')).toBe(false),
  );
});

test('more texts than are compared refuse every expression', () => {
  const seen = (count: number) => Array.from({ length: count }, (_, index) => `{ x${index}`);
  expect(isRefused(seen(OPENED_TEXTS_MAX), '{{ pan }}')).toBe(false);
  expect(isRefused(seen(OPENED_TEXTS_MAX + 1), '{{ pan }}')).toBe(true);
});
