// The parser against the engine's own: the same values, the same refusals; and in slices, however the text is made.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json } from './json.ts';
import { JSON_SLICE_CHARACTERS, JsonSyntaxError, parseInSlices } from './json-parser.ts';
import { runAtOnce } from './slices.ts';

const parseAtOnce = (text: string) => runAtOnce(parseInSlices(text));

const refused = Symbol('refused');

const ours = (text: string): unknown => {
  try {
    return parseAtOnce(text).value;
  } catch (error) {
    if (error instanceof JsonSyntaxError) return refused;
    throw error;
  }
};

const theirs = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return refused;
  }
};

const value = fc.jsonValue({ maxDepth: 6, stringUnit: 'binary' });
const blanks = fc.constantFrom('', ' ', '\n', '\t\r ');

describe('what JSON.parse reads, and nothing else, is read as JSON.parse reads it', () => {
  test('valid texts, compact and spread', () => {
    fc.assert(
      fc.property(value, blanks, fc.nat(4), (json, blank, space) => {
        const text = `${blank}${JSON.stringify(json, undefined, space)}${blank}`;
        const withoutPrototypes = (key: string, part: unknown) => (key === '__proto__' ? undefined : part);
        expect(ours(text)).toEqual(JSON.parse(text, withoutPrototypes));
      }),
      { numRuns: 2000 },
    );
  });

  test('texts with a piece put in, replaced or taken out', () => {
    const piece = fc.constantFrom(
      ...'{}[],:"\\01-.eE+tfnu \n\t\u0001\u00a0\ufeffx',
      'true',
      'null',
      '\\u0',
      '00',
      '""',
      'NaN',
    );
    fc.assert(
      fc.property(value, fc.nat(), fc.nat(2), piece, (json, place, less, more) => {
        const text = JSON.stringify(json);
        const at = place % (text.length + 1);
        const changed = (text.slice(0, at) + more + text.slice(at + less)).replaceAll('__proto__', '_proto_');
        expect(ours(changed)).toEqual(theirs(changed));
      }),
      { numRuns: 20_000 },
    );
  });

  test('texts of the grammar’s pieces in any order', () => {
    const piece = fc.constantFrom('{', '}', '[', ']', ',', ':', '"a"', '"b', '1', '-', '0.5', 'e3', 'true', ' ', '""');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const text = pieces.join('');
        expect(ours(text)).toEqual(theirs(text));
      }),
      { numRuns: 20_000 },
    );
  });

  test('the order of members stays', () => {
    const text = '{"b":1,"2":2,"a":3,"1":4}';
    expect(JSON.stringify(ours(text))).toBe(JSON.stringify(JSON.parse(text)));
  });

  test('no key reaches a prototype', () => {
    const text = '{"__proto__":{"polluted":1},"a":[{"__proto__":[]}]}';
    const { value: parsed, findings } = parseAtOnce(text);
    expect(Object.getPrototypeOf(parsed)).toBe(Object.prototype);
    expect((parsed as Record<string, unknown>)['polluted']).toBeUndefined();
    expect(findings.prototype).toEqual({
      path: '',
      sentence: 'must not have the key __proto__',
      code: 'forbidden_name',
    });
  });
});

describe('what must not be in a body is found at its place', () => {
  test.each([
    ['{"a":1,"a":1}', 'a'],
    ['{"a":{"b":[0,{"c":1,"d":2,"c":3}]}}', 'a.b[1].c'],
    [String.raw`{"a":1,"\u0061":2}`, 'a'],
    ['[{"":0,"":0}]', '[0].'],
    ['{"toString":1,"constructor":2,"toString":3}', 'toString'],
    ['{"1":0,"01":0,"1":0}', '1'],
  ])('one key twice: %s', (text, path) => {
    expect(parseAtOnce(text).findings).toEqual({
      duplicate: { path, sentence: 'must not be there twice in one object', code: 'duplicate_name' },
    });
  });

  test.each(['{"a":{"a":{"a":1}}}', '[{"a":1},{"a":1}]', '{"a":"a","b":"a"}', '{"a":1,"A":2}'])(
    'no key is there twice: %s',
    (text) => expect(parseAtOnce(text).findings).toEqual({}),
  );

  test('generated objects have a finding only where a key was put in a second time', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), value, { minKeys: 1 }), fc.nat(), (members, at) => {
        const text = JSON.stringify(members).replaceAll('"__proto__":', '"_proto_":');
        const once = parseAtOnce(text);
        expect(once.findings.duplicate).toBeUndefined();
        const names = Object.keys(once.value as object);
        const again = JSON.stringify(names[at % names.length]);
        expect(parseAtOnce(`${text.slice(0, -1)},${again}:0}`).findings.duplicate).toBeDefined();
      }),
    );
  });

  test('levels beyond the most, which cost no stack', () => {
    const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
    expect(parseAtOnce(nested(64)).findings).toEqual({});
    for (const levels of [65, 200_000]) expect(parseAtOnce(nested(levels)).findings.depth?.path).toBe('');
  });
});

describe('a text is parsed in slices', () => {
  const member = '"name":"value",';
  test.each([
    ['many short items', `[${'1,'.repeat(500_000)}1]`],
    ['many members', `[${`{${member}"a":[true,null,1.5]},`.repeat(20_000)}0]`],
    ['deep nesting', '['.repeat(400_000) + ']'.repeat(400_000)],
    ['blanks', `[${' \n'.repeat(10)}${`1,${' '.repeat(20)}`.repeat(30_000)}1]`],
    ['one long string', `["${'x'.repeat(500_000)}"]`],
    ['one long string with escapes', String.raw`{"a":"${String.raw`\"\u00e9\ud83d\udd11\\\n`.repeat(30_000)}"}`],
    ['strings with escapes', `[${String.raw`"a\n\u00e9",`.repeat(60_000)}""]`],
  ])('%s', (_, text) => {
    const parsing = parseInSlices(text);
    let pauses = 0;
    while (!parsing.next().done) pauses += 1;
    // A slice ends behind the token in which its characters end, and these tokens are short.
    expect(pauses).toBeGreaterThanOrEqual(Math.floor(text.length / (JSON_SLICE_CHARACTERS + 100)));
    expect(pauses).toBeGreaterThan(5);
  });

  test('a long string is the same, and one that is no JSON is refused', () => {
    const long = '"\\\n\u{1f511}\ud83dé';
    // Pieces end at different places.
    for (let shift = 0; shift < 8; shift += 1) {
      const value = { a: 'x'.repeat(shift) + long.repeat(20_000), b: [1] };
      expect(parseAtOnce(JSON.stringify(value)).value).toEqual(value);
    }
    const start = `["${'x'.repeat(100_000)}`;
    for (const end of ['', '\\', '\\"', '\\u12"]', '\\x"]', '\n"]', '\u0000"]', '"', '"]]'])
      expect(() => parseAtOnce(start + end)).toThrow(JsonSyntaxError);
  });

  test('the value is the same', () => {
    const json: Json = Array.from({ length: 20_000 }, (_, id) => ({
      id,
      name: `é"${id}`,
      list: [id, null, { a: id / 7 }],
    }));
    expect(parseAtOnce(JSON.stringify(json))).toEqual({ value: json, findings: {} });
  });
});
