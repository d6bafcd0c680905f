// An id that a create accepts can be used: each form of an expression refers to that id and to no other.
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { collectTokenIds, createCodedTexts, createReferences } from './expressions/expansion.ts';
import { isMetadataKey, chosenTokenId } from './token-request.ts';
import { isPlainName } from '../access/names.ts';
import { parseSearchQuery, SEARCH_QUERY_LENGTH_MAX } from './search-query.ts';

/** Characters that a grammar or a transport could read otherwise, among ordinary ones. */
const nasty = fc.constantFrom(
  ...' \t\n\r\u00a0\u2003\u2028\ufeff\0\u007f\u0085\u200b\u202e\'"`\\/:;,.|?#&=%+-_~!*()[]{}<>@$^',
  'token:',
  'data',
  'metadata.',
  'search',
  'nil',
  'TO',
  'é',
  'e\u0301',
  '顧',
  '😀',
  '\ud83d',
);
const texts = fc
  .array(fc.oneof(nasty, fc.string({ minLength: 1, maxLength: 4 }), fc.constantFrom('a', '7')), { maxLength: 12 })
  .map((parts) => parts.join(''));

const isId = (text: string): boolean => chosenTokenId.safeParse(text).success;

const forms: [form: string, write: (id: string) => string][] = [
  ['without blanks', (id) => `{{${id}}}`],
  ['with blanks', (id) => `{{ ${id} }}`],
  ['with a filter', (id) => `{{ ${id} | json: '$' }}`],
  ['of the whole token', (id) => `{{ token: ${id} }}`],
  ['of the whole token, without blanks', (id) => `{{token:${id}}}`],
];

test.each(forms)('an expression %s refers to the id that it has', (_form, write) => {
  let accepted = 0;
  fc.assert(
    fc.property(texts, (id) => {
      if (!isId(id)) return;
      accepted += 1;
      expect([...collectTokenIds(write(id)).ids]).toEqual([id]);
    }),
    { numRuns: 5_000 },
  );
  expect(accepted).toBeGreaterThan(300);
});

test('`svc.expression` refers to the id that it gets', () => {
  const mark = 'svc-00000000-0000-4000-8000-000000000000-1';
  fc.assert(
    fc.property(texts, (id) => {
      if (!isId(id)) return;
      const coded = createCodedTexts(new Map([[mark, { id }]]));
      expect([...collectTokenIds(`{{${mark}}}`, createReferences(undefined, coded)).ids]).toEqual([id]);
    }),
    { numRuns: 5_000 },
  );
});

test('a path, a parameter and a search carry each id and each key of metadata unchanged', () => {
  fc.assert(
    fc.property(texts, (text) => {
      const quoted = `"${text.replaceAll(/["\\]/g, '\\$&')}"`;
      if (quoted.length > SEARCH_QUERY_LENGTH_MAX - 20) return;
      if (isId(text)) {
        const url = new URL(`http://vault.example.com/tokens/${encodeURIComponent(text)}`);
        expect(decodeURIComponent(url.pathname.slice('/tokens/'.length))).toBe(text);
        expect(parseSearchQuery(`id:${quoted}`)).toEqual({ kind: 'term', field: 'id', value: text });
      }
      if (isMetadataKey(text)) {
        const parameters = new URLSearchParams({ [`metadata.${text}`]: 'x' });
        expect([...new URLSearchParams(parameters.toString()).keys()]).toEqual([`metadata.${text}`]);
        expect(parseSearchQuery(`metadata.${quoted}:x`)).toEqual({ kind: 'metadata', key: text, value: 'x' });
      }
    }),
    { numRuns: 5_000 },
  );
});

test.each([
  [' a', false],
  ['a ', false],
  ['a\u00a0', false],
  ['\ufeffa', false],
  ['a\tb', false],
  ['a\nb', false],
  ['a\u0085b', false],
  ['a\u2028b', false],
  ['a\0b', false],
  ['a\ud83d', false],
  ['', false],
  ['a', true],
  ['a b', true],
  ['größe 顧客 😀', true],
  ['می\u200cخواهم', true],
])('%j as a name: %s', (text, isGood) => {
  expect([isPlainName(text), isMetadataKey(text)]).toEqual([isGood, isGood]);
});

test.each([' abc', 'abc ', 'abc\u00a0', '\tabc', 'token:abc', 'token: abc', 'a\u0007c', 'a\u2028c', 'search'])(
  'an id %j is refused',
  (id) => expect(isId(id)).toBe(false),
);

test.each(['__proto__', 'x'.repeat(201)])('a key of metadata %j is refused', (key) =>
  expect(isMetadataKey(key)).toBe(false),
);
