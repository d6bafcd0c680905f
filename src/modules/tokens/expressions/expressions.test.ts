// Tests the expression language against its vectors and with generated texts: errors, single expansion, linear time.
import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { watchMemory } from '../../../../test/support/memory.ts';
import {
  collectTokenIds,
  createExpansion,
  createReferences,
  expandJson,
  expandText,
  type ExpansionRecord,
} from './expansion.ts';
import { ExpressionError, type ExpressionErrorCode } from './expression-error.ts';
import {
  evaluateCreateTime,
  evaluateShape,
  type ExpressionEnvironment,
  type ExpressionKind,
  scanExpression,
  type Scope,
} from './expressions.ts';
import type { Json } from '../../../platform/json/json.ts';
import { createMeter, EXPANDED_BYTES_MAX, WORK_MAX } from './meter.ts';
import { scanTemplate } from './template.ts';

/** A readable digest: its arguments. */
const environment: ExpressionEnvironment = {
  hmac: (algorithm, key, text) => Buffer.from(`${algorithm}|${key}|${text}`).toString('hex'),
};

type Question =
  | { kind: 'create'; template: string; scope: Scope }
  | { kind: 'shape'; shape: Json; scope: Scope }
  | { kind: 'json'; value: Json; tokens: Record<string, ExpansionRecord> }
  | { kind: 'text'; text: string; tokens: Record<string, ExpansionRecord> }
  | { kind: 'problem'; template: string; expression_kind: ExpressionKind };

type Outcome =
  | { outcome: 'value'; expect: Json }
  | { outcome: 'nothing' | 'allowed' | 'refused' }
  | { outcome: 'error'; error: ExpressionErrorCode };

type Case = { name: string } & Question & Outcome;

const cases = JSON.parse(
  readFileSync(new URL('../../../../test/vectors/expressions.json', import.meta.url), 'utf8'),
) as readonly Case[];

const resolver = (tokens: Record<string, ExpansionRecord>) => (id: string) =>
  Object.hasOwn(tokens, id) ? tokens[id] : undefined;

const expansionOf = (tokens: Record<string, ExpansionRecord>) => createExpansion(resolver(tokens), environment);

const answer = (question: Question): Json | undefined => {
  switch (question.kind) {
    case 'create':
      return evaluateCreateTime(scanTemplate(question.template), question.scope, environment);
    case 'shape':
      return evaluateShape(question.shape, question.scope, environment);
    case 'json':
      return expandJson(question.value, expansionOf(question.tokens));
    case 'text':
      return expandText(question.text, encodeURIComponent, expansionOf(question.tokens));
    case 'problem':
      return isRefused(() => scanExpression(question.template, question.expression_kind)) ? 'refused' : 'allowed';
    default:
      throw new Error('unknown kind of case');
  }
};

const isRefused = (work: () => unknown): boolean => {
  try {
    work();
    return false;
  } catch (error) {
    if (error instanceof ExpressionError) return true;
    throw error;
  }
};

const errorOf = (work: () => unknown): ExpressionError => {
  try {
    work();
  } catch (error) {
    if (error instanceof ExpressionError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
};

describe('every vector has its outcome', () => {
  test.each(cases)('$kind: $name', (each) => {
    switch (each.outcome) {
      case 'value':
        expect(answer(each)).toEqual(each.expect);
        break;
      case 'nothing':
        expect(answer(each)).toBeUndefined();
        break;
      case 'allowed':
      case 'refused':
        expect(answer(each)).toBe(each.outcome);
        break;
      case 'error':
        expect(errorOf(() => answer(each)).code).toBe(each.error);
        break;
      default:
        throw new Error('unknown outcome');
    }
  });

  test('and there are at least 150 of them, each named once', () => {
    expect(cases.length).toBeGreaterThanOrEqual(150);
    expect(new Set(cases.map(({ name }) => name)).size).toBe(cases.length);
  });
});

/** Generated texts that are nearly expressions: tokens of the grammar in any order. */
const nearly = fc
  .array(
    fc.oneof(
      fc.constantFrom('{', '}', '{{', '}}', '|', ':', ',', "'", '"', '[', ']', '.', ' ', 'data', 'metadata', 'token:'),
      fc.constantFrom(
        'json',
        'last4',
        'reveal',
        'split',
        'slice',
        'card_exp',
        "'$..a'",
        '4',
        '-1',
        'nil',
        '\n',
        '\u200b',
      ),
      fc.string({ unit: 'binary', maxLength: 5 }),
    ),
    { maxLength: 30 },
  )
  .map((pieces) => pieces.join(''));

describe('what holds for every text', () => {
  test('scanning throws only ExpressionErrors, with an offset within the text', () => {
    fc.assert(
      fc.property(nearly, (text) => {
        try {
          scanTemplate(text);
        } catch (error) {
          expect(error).toBeInstanceOf(ExpressionError);
          expect((error as ExpressionError).offset).toBeGreaterThanOrEqual(0);
          expect((error as ExpressionError).offset).toBeLessThan(text.length);
        }
      }),
      { numRuns: 3000 },
    );
  });

  test('text without {{ is returned unchanged', () => {
    fc.assert(
      fc.property(
        nearly.filter((text) => !text.includes('{{')),
        (text) => {
          expect(scanTemplate(text)).toEqual({ parts: [text], draws: false });
          expect(expandText(text, () => 'never', expansionOf({}))).toBe(text);
          expect(expandJson({ [text]: [text] }, expansionOf({}))).toEqual({ [text]: [text] });
        },
      ),
    );
  });

  test('evaluating any filters on any JSON throws only ExpressionErrors', () => {
    const call = fc.constantFrom(
      "json: '$..*'",
      "json: '$[?@.a == $[0]]'",
      'last4',
      'reveal: 1, 2',
      'reveal_last: 3',
      'card_mask',
      'card_bin',
      "card_exp: 'MM'",
      "pad_left: 9, 'x'",
      'stringify',
      'to_string',
      'to_number',
      'to_boolean',
      'to_base64',
      'size',
      'to_base16',
      "hmac: 'sha-1', 'k'",
      "split: ''",
      'first',
      'last',
      'upcase',
      "remove: 'a'",
      'slice: -2, 5',
      'strip',
    );
    fc.assert(
      fc.property(fc.jsonValue(), fc.array(call, { maxLength: 4 }), (data, calls) => {
        const template = `{{ ${['data', ...calls].join(' | ')} }}`;
        try {
          evaluateCreateTime(scanTemplate(template), { data: data as Json }, environment);
        } catch (error) {
          expect(error).toBeInstanceOf(ExpressionError);
        }
      }),
      { numRuns: 2000 },
    );
  });

  test('a value is inserted once, even if it contains an expression', () => {
    fc.assert(
      fc.property(nearly, (value) => {
        expect(expandJson(['{{ t }}', 'a {{ t }}'], expansionOf({ t: { data: value } }))).toEqual([
          value,
          `a ${value}`,
        ]);
        expect(expandText('{{ t }}', (text) => text, expansionOf({ t: { data: value } }))).toBe(value);
      }),
    );
  });

  test('an error message never holds the expression or the value', () => {
    for (const each of cases) {
      if (each.outcome !== 'error' || each.kind !== 'create') continue;
      const secret = 'Zq9SecretZq9';
      const error = errorOf(() => answer({ ...each, template: each.template.replaceAll("'v'", `'${secret}'`) }));
      expect(error.message).not.toContain(secret);
      expect(error.message).toMatch(/^must /);
    }
    const error = errorOf(() => scanTemplate('{{ data | Zq9SecretZq9 }}'));
    expect(error.message).not.toContain('Zq9');
  });

  test('the resolver receives whether the expression needs the whole token', () => {
    const asked: [string, boolean][] = [];
    const expansion = createExpansion((id, whole) => (asked.push([id, whole]), { data: 'v' }), environment);
    expect(expandJson(["{{ token: a | json: '$.data' }}", '{{ b }}'], expansion)).toEqual(['v', 'v']);
    expect(asked).toEqual([
      ['a', true],
      ['b', false],
    ]);
  });

  test('neither the input nor a prototype is changed', () => {
    const body = JSON.parse('{"__proto__":{"polluted":"{{ t }}"},"a":["{{ t }}"]}') as Json;
    const before = JSON.stringify(body);
    const expanded = expandJson(body, expansionOf({ t: { data: 'v' } }));
    expect(JSON.stringify(body)).toBe(before);
    expect(JSON.stringify(expanded)).toBe('{"__proto__":{"polluted":"v"},"a":["v"]}');
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });
});

/** The least CPU time in milliseconds of several runs. CPU time excludes other processes. */
const leastMs = (times: number, work: () => void): number => {
  let least = Infinity;
  for (let run = 0; run < 5; run += 1) {
    const before = process.threadCpuUsage();
    for (let time = 0; time < times; time += 1) work();
    const { user, system } = process.threadCpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
};

const attempt = (text: string) => () => {
  try {
    scanTemplate(text);
  } catch (error) {
    expect(error).toBeInstanceOf(ExpressionError);
  }
};

describe('limits', () => {
  test.each([
    ['{', '{'],
    ['{{', '{{'],
    ['{ ', '{ '],
    ['}}', '}}'],
    ['{{ a }}', '{{ a }}'],
    ["{{ '", "{{ '"],
    ['{{ a | append: "', '{{ a | append: "'],
    ['{{ a' + ' '.repeat(100), '{{ a' + ' '.repeat(100)],
  ])('scanning is linear on %j, again and again', (_name, piece) => {
    const short = attempt(piece.repeat(100_000 / piece.length));
    const long = attempt(piece.repeat(10_000_000 / piece.length));
    short();
    // Both scan the same number of characters; quadratic work would take 100 times as long. The floor covers the clock's resolution.
    expect(leastMs(1, long)).toBeLessThan(20 * Math.max(10, leastMs(100, short)));
  });

  test('100 tokens pass, 101 do not, in however many places', () => {
    const references = createReferences();
    const ids = Array.from({ length: 100 }, (_, index) => `{{ t${index} }}`);
    collectTokenIds(ids.slice(0, 60), references);
    collectTokenIds(ids.slice(50).join(' '), references);
    expect(references.ids.size).toBe(100);
    expect(references.placeholders).toBe(110);
    expect(errorOf(() => collectTokenIds('{{ one more }}', references)).code).toBe('too_many_tokens');
  });

  test('1,000 placeholders of one token pass, 1,001 do not', () => {
    const references = collectTokenIds('{{ t }}'.repeat(1000));
    expect([...references.ids]).toEqual(['t']);
    expect(errorOf(() => collectTokenIds(['{{ t }}'], references)).code).toBe('too_many_placeholders');
  });

  test('collecting looks at strings, and never at keys', () => {
    const references = collectTokenIds({ '{{ k }}': ['{{ a }}', { b: 'x {{ token: b | last4 }} {{ a }}' }, 5, null] });
    expect([...references.ids]).toEqual(['a', 'b']);
  });

  test('1 MB a thousand times is refused before it is allocated', () => {
    const tokens = { t: { data: 'x'.repeat(1024 * 1024) }, o: { data: { a: 'x'.repeat(1024 * 1024) } } };
    const memory = watchMemory({ megabytes: 128 });
    for (const id of ['t', 'o']) {
      const body = Array.from({ length: 1000 }, () => `{{ ${id} }}`);
      expect(errorOf(() => expandJson(body, expansionOf(tokens))).code).toBe('too_large');
      expect(errorOf(() => expandJson(body.join(''), expansionOf(tokens))).code).toBe('too_large');
      expect(errorOf(() => expandText(body.join(''), encodeURIComponent, expansionOf(tokens))).code).toBe('too_large');
    }
    memory.end();
  });

  test('the bytes of all places of a request count together', () => {
    const expansion = expansionOf({ t: { data: 'x'.repeat(EXPANDED_BYTES_MAX / 2 + 1) } });
    expandText('{{ t }}', (text) => text, expansion);
    expect(errorOf(() => expandJson(['{{ t }}'], expansion)).code).toBe('too_large');
  });

  test('bytes count after encoding', () => {
    const expansion = expansionOf({ t: { data: '&'.repeat(EXPANDED_BYTES_MAX / 2) } });
    expect(errorOf(() => expandText('{{ t }}', encodeURIComponent, expansion)).code).toBe('too_large');
  });

  test('a mask shows at most 10 MB', () => {
    const data = 'x'.repeat(1024 * 1024);
    const times = (count: number) => Array.from({ length: count }, () => '{{ data }}');
    expect(evaluateShape(times(9), { data }, environment)).toHaveLength(9);
    expect(errorOf(() => evaluateShape(times(11), { data }, environment)).code).toBe('too_large');
  });

  test('bytes count as JSON writes them: a control character is six', () => {
    const data = '\0'.repeat(1024 * 1024);
    expect(evaluateShape(['{{ data }}'], { data }, environment)).toEqual([data]);
    expect(errorOf(() => evaluateShape(['{{ data }}', 'x {{ data }}'], { data }, environment)).code).toBe('too_large');
  });

  test('one meter bounds the work of many evaluations, and a spent one evaluates nothing', () => {
    const data = { text: 'x'.repeat(100_000) };
    const meter = createMeter();
    const template = scanTemplate(`{{ data.text ${'| upcase '.repeat(10)}| last4 }}`);
    const evaluate = () => evaluateCreateTime(template, { data }, environment, meter);
    let evaluated = 0;
    const error = errorOf(() => {
      for (;;) {
        evaluate();
        evaluated += 1;
      }
    });
    expect(error.code).toBe('too_complex');
    expect(evaluated).toBeGreaterThan(5);
    expect(evaluated).toBeLessThan(20);
    expect(errorOf(() => evaluateShape('{{ data.text | last4 }}', { data }, environment, meter)).code).toBe(
      'too_complex',
    );
    expect(evaluateShape('{{ data.text | last4 }}', { data }, environment)).toBe('xxxx');
  });

  test.each([
    ['a JSONPath is read', "{{ data | json: '$[0,1]' }}"],
    ['a digest is made', "{{ data | size | hmac: 'sha-256', 'k' }}"],
    ['a value is measured', '{{ data }}'],
    ['a list is cut', '{{ data | slice: 0, 100000 | first }}'],
    ['a value is written as text', '{{ data | stringify | size }}'],
  ])('work is spent where %s', (_name, text) => {
    const meter = createMeter();
    const data = Array.from({ length: 20_000 }, () => 1);
    const shape = Array.from({ length: 19_000 }, () => text);
    expect(['too_complex', 'not_one_value']).toContain(
      errorOf(() => evaluateShape(shape, { data }, environment, meter)).code,
    );
    expect(meter.work).toBeGreaterThan(0);
  });

  test('common masks are far from the limit: 4,300 cards, three expressions each', () => {
    const meter = createMeter();
    const data = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 };
    const mask = {
      number: "{{ data.number | reveal: 6, 4, 'X' }}",
      month: "{{ data | json: '$.expiration_month' }}",
      year: '{{ data.expiration_year | to_string }}',
    };
    for (let card = 0; card < 4300; card += 1) evaluateShape(mask, { data }, environment, meter);
    expect(meter.work).toBeLessThan(WORK_MAX / 1.5);
  });

  test('50,000 placeholders of a request pass, one more does not', () => {
    const meter = createMeter();
    const texts = Array.from({ length: 50 }, () => '{{data}}'.repeat(1000));
    evaluateShape(texts, { data: 1 }, environment, meter);
    expect(errorOf(() => evaluateShape('{{ data }}', { data: 1 }, environment, meter)).code).toBe(
      'too_many_placeholders',
    );
  });

  test('an expression that would grow beyond 10 MB is refused', () => {
    const data = 'a'.repeat(1024 * 1024);
    const template = scanTemplate(`{{ data | replace: 'a', '${'b'.repeat(100)}' }}`);
    expect(errorOf(() => evaluateCreateTime(template, { data }, environment)).code).toBe('too_large');
  });

  test('an encoder may refuse a value', () => {
    const refuse = () => {
      throw new RangeError('not here');
    };
    expect(() => expandText('{{ t }}', refuse, expansionOf({ t: { data: 'a\r\nb' } }))).toThrow(RangeError);
  });

  test('the smaller limits of a caller hold', () => {
    const limits = { tokensMax: 1, placeholdersMax: 2, bytesMax: 5 };
    const make = () => createExpansion(() => ({ data: 'ab' }), environment, createReferences(limits));
    expect(expandText('{{ a }}', (text) => text, make())).toBe('ab');
    expect(errorOf(() => expandJson(['{{ a }}', '{{ a }}'], make())).code).toBe('too_large');
    expect(errorOf(() => expandJson('{{ a | size }}'.repeat(3), make())).code).toBe('too_many_placeholders');
    expect(errorOf(() => expandJson('{{ a }}{{ b }}', make())).code).toBe('too_many_tokens');
  });
});
