// The client for Node names every operation of the document, and its expressions mean what their keys say.
import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { expect, expectTypeOf, test } from 'vitest';
import { createMeter } from '../../../src/modules/tokens/expressions/meter.ts';
import { queryJson } from '../../../src/modules/tokens/expressions/json-path.ts';
import { type Expression as Parsed, scanTemplate } from '../../../src/modules/tokens/expressions/template.ts';
import { readOperations } from '../../operations.ts';
import { data, expression, record, ref } from '../src/expressions.ts';
import { writeJson } from '../src/json.ts';
import { readRetryAfter } from '../src/pacing.ts';
import { resources } from '../src/resources.ts';
import { Strongroom } from '../src/strongroom.ts';

const document = JSON.parse(readFileSync(new URL('../../../openapi/openapi.json', import.meta.url), 'utf8'));

const parseOne = (text: string): Parsed => {
  const { parts } = scanTemplate(text);
  expect(parts.length).toBe(1);
  return parts[0] as Parsed;
};

test('every operation has one name in the client, in src/resources.ts', () => {
  const named = Object.values(resources).flatMap((methods) => Object.values(methods));
  const known = readOperations(document).map(({ id }) => id);
  expect(named.toSorted()).toEqual(known.toSorted());
});

test('a path leads to the value under its keys, whatever characters they have', () => {
  const key = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('a', `it's`, '"', '\\', '}}', '{{', '|', 'a.b', ' '),
  );
  // A JSONPath as a key is a mistake of the caller.
  const keys = fc.array(
    key.filter((text) => text.isWellFormed() && !/^\$[.[]/.test(text)),
    { minLength: 1, maxLength: 4 },
  );
  fc.assert(
    fc.property(keys, (path) => {
      const value = path.reduceRight<any>((inner, name) => ({ [name]: inner }), 'found');
      const { head, filters } = parseOne(String(ref('token-1').path(...path)));
      expect([head, filters.length]).toEqual(['token-1', 1]);
      expect(queryJson(value, filters[0]?.args[0] as string, createMeter())).toEqual(['found']);
    }),
  );
  expect(String(ref({ id: 'abc' }).path('lines', 0, 'sku'))).toBe(`{{ abc | json: '$.lines[0].sku' }}`);
});

test('arguments of filters keep their type and characters', () => {
  const made = ref('abc')
    .filter('replace', `it's`, '"')
    .filter('reveal_last', 4)
    .filter('slice', -1.5, true)
    .default(null);
  expect(parseOne(String(made)).filters.map(({ args }) => args)).toEqual([[`it's`, '"'], [4], [-1.5, true], [null]]);
  expect(JSON.stringify({ a: record('abc').path('metadata', 'order') })).toBe(
    `{"a":"{{ token: abc | json: '$.metadata.order' }}"}`,
  );
  expect(`${data('lines', 0, 'a b').filter('last4')}`).toBe(`{{ data.lines[0]['a b'] | last4 }}`);
});

test('what an expression cannot say is a TypeError that holds no value', () => {
  const id = 'abc';
  const wrong: (() => unknown)[] = [
    () => ref(''),
    () => ref({}),
    () => ref('a}} {{b'),
    () => ref('a | json: 1'),
    () => ref('token: a'),
    () => ref('a\nb'),
    () => ref(id).filter('json: 1 | x'),
    () => ref(id).filter('replace', `'"secret`),
    () => ref(id).filter('append', 'secret\n'),
    () => ref(id).filter('slice', Number.NaN),
    () => ref(id).filter('slice', 1e21),
    () => ref(id).path('$.number'),
    () => ref(id).path(1.5),
  ];
  for (const make of wrong) {
    const error = (() => {
      try {
        return make();
      } catch (thrown) {
        return thrown;
      }
    })();
    expect(error, String(make)).toBeInstanceOf(TypeError);
    expect(String(error)).not.toContain('secret');
  }
});

test('a body that JSON would change is refused at its path, and its value is not shown', () => {
  const cyclic: Record<string, unknown> = {};
  cyclic['self'] = cyclic;
  const wrong: [unknown, string][] = [
    [{ a: [Number.NaN] }, 'a[0]'],
    [{ a: { b: 9007199254740993n } }, 'a.b'],
    [[2 ** 53], '[0]'],
    [{ a: [1, undefined] }, 'a[1]'],
    // oxlint-disable-next-line no-sparse-arrays
    [{ a: [1, , 2] }, 'a[1]'],
    [{ a: new Map([['secret', 1]]) }, 'a'],
    [{ a: Buffer.from('x').subarray }, 'a'],
    [new Uint8Array(4), 'body'],
    [Symbol('secret'), 'body'],
    [cyclic, 'body'],
    [{ a: ['{{ secret }}'] }, 'a[0]'],
  ];
  for (const [body, path] of wrong) {
    const write = () => writeJson('POST /x', body, true);
    expect(write).toThrow(expect.objectContaining({ code: 'invalid_input', errors: { [path]: [expect.any(String)] } }));
    expect(write).not.toThrow('secret');
  }
  const right = {
    a: 9007199254740991n,
    b: undefined,
    c: new Date(0),
    d: ref('abc'),
    e: expression('{{ abc }}'),
    f: null,
  };
  const expected = '{"a":9007199254740991,"c":"1970-01-01T00:00:00.000Z","d":"{{ abc }}","e":"{{ abc }}","f":null}';
  expect(writeJson('POST /x', right, true)).toBe(expected);
  expect(writeJson('POST /x', { mask: '{{ data }}' }, false)).toBe('{"mask":"{{ data }}"}');
});

test('wrong options are refused when the client is made, and the key is in no text of it', async () => {
  const options = { apiKey: 'svc_test_secret', baseUrl: 'https://vault.example.com/' };
  const wrong: object[] = [
    { apiKey: '' },
    { apiKey: undefined },
    { baseUrl: undefined },
    { apiKey: 'svc_test_secret\n' },
    { baseUrl: 'vault.example.com' },
    { baseUrl: 'https://user:secret@vault.example.com' },
    { baseUrl: 'https://vault.example.com/?key=secret' },
    { timeout: -1 },
    { retries: Number.NaN },
    { retry: 1 },
  ];
  for (const change of wrong) {
    const make = () => new Strongroom({ ...options, ...change });
    expect(make, JSON.stringify(change)).toThrow(TypeError);
    expect(make).not.toThrow('secret');
  }
  const vault = new Strongroom(options);
  const { inspect } = await import('node:util');
  expect(inspect(vault, { depth: 10, showHidden: true }) + JSON.stringify(vault)).not.toContain('secret');
});

test('Retry-After is read as seconds and as a date', () => {
  const read = (text: string) => readRetryAfter(new Headers({ 'retry-after': text }));
  expect([read('60'), read('0'), read('soon'), read('-1')]).toEqual([60_000, 0, undefined, undefined]);
  expect(read(new Date(Date.now() + 90_000).toUTCString())).toBeGreaterThan(80_000);
  expect(read(new Date(0).toUTCString())).toBe(0);
});

test('the types have filters by metadata, and secrets where an answer always has them', () => {
  type Answer<Call extends (...given: any[]) => Promise<unknown>> = Awaited<ReturnType<Call>>;
  expectTypeOf<{ size: number; 'metadata.order': string }>().toExtend<Parameters<Strongroom['tokens']['list']>[0]>();
  expectTypeOf<Answer<Strongroom['sessions']['create']>['session_key']>().toEqualTypeOf<string>();
  expectTypeOf<Answer<Strongroom['applications']['createKey']>['key']>().toEqualTypeOf<string>();
  expectTypeOf<Answer<Strongroom['applications']['regenerateKey']>['key']>().toEqualTypeOf<string>();
  expectTypeOf<Answer<Strongroom['webhooks']['create']>['secret']>().toEqualTypeOf<string>();
  expectTypeOf<Answer<Strongroom['webhooks']['rotateSecret']>['secret']>().toEqualTypeOf<string>();
});
