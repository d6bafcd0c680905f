// Tests JSON within a text: a value can change neither the inner document nor the outer one.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { awkward, problemsOf, send, sendBody } from '../../../../test/support/expansion.ts';
import type { Json } from '../../../platform/json/json.ts';

/** Each place where a document stands as a text: what is sent, and how its receiver reads the document. */
const places: Record<string, { send(document: string, values: Record<string, Json>): string; place: string }> = {
  'a string of JSON': {
    send: (document, values) =>
      JSON.parse(sendBody('application/json', JSON.stringify({ a: [document] }), values)).a[0],
    place: 'body.a[0]',
  },
  'the member query of JSON, without fields of GraphQL': {
    send: (document, values) => JSON.parse(sendBody('application/json', JSON.stringify({ q: document }), values)).q,
    place: 'body.q',
  },
  'a field of a form': {
    send: (document, values) => {
      const body = `payload=${encodeURIComponent(document)}&b=1`;
      return new URLSearchParams(sendBody('application/x-www-form-urlencoded', body, values)).get('payload') ?? '';
    },
    place: 'body.payload',
  },
  'a parameter': {
    send: (document, values) => {
      const { query } = send({ query: `filter=${encodeURIComponent(document)}` }, values);
      return new URLSearchParams(query).get('filter') ?? '';
    },
    place: 'query.filter',
  },
};

const hostile = ['"', 'x","admin":true,"y":"', '\\', 'a\\"b', 'line\nend', '\u0000', '\u2028'];

describe.each(Object.entries(places))('JSON in %s', (_, { send: sendAs, place }) => {
  const isRefused = (document: string, t: Json) =>
    expect(
      problemsOf(() => sendAs(document, { t })),
      `${document} ${JSON.stringify(t)}`,
    ).toEqual({
      [place]: [expect.stringContaining('quote_json')],
    });

  test.each(['{"card":"{{ t }}"}', ' [1, "x {{ t }} y"]', '{"a":{"b":["{{ t }}"]}}', '{"{{ t }}":1}'])(
    'in a string takes no value that ends it: %s',
    (document) => {
      expect(sendAs(document, { t: "O'Neil, Ada <a@b>" })).toBe(document.replace('{{ t }}', "O'Neil, Ada <a@b>"));
      for (const value of hostile) isRefused(document, value);
      isRefused(document, { a: 1 });
    },
  );

  test.each(['{"card":{{ t }}}', '[{{ t }}]', '{"a":1, "b" : {{ t }} }'])(
    'outside of strings takes a value of JSON: %s',
    (document) => {
      for (const value of [1, true, -0.5, { a: '"' }, ['x'], '12', '{"x":1}'])
        expect(() => JSON.parse(sendAs(document, { t: value }))).not.toThrow();
      for (const value of ['x', null, '1,"admin":true', '1}', '', '1]', '// x']) isRefused(document, value);
    },
  );

  test('takes any value with quote_json (property)', () => {
    fc.assert(
      fc.property(awkward, (value) => {
        const written = sendAs('{"a":{{ t | quote_json }},"b":[{{ t | quote_json }}]}', { t: value });
        expect(JSON.parse(written)).toEqual({ a: value, b: [value] });
      }),
      { numRuns: 500 },
    );
  });

  test('in JSON in JSON takes no value that ends a string of any of them', () => {
    const inner = JSON.stringify({ c: '{{ t }}' });
    const document = JSON.stringify({ b: inner });
    expect(JSON.parse(JSON.parse(sendAs(document, { t: 'v' })).b)).toEqual({ c: 'v' });
    for (const value of hostile) isRefused(document, value);
  });

  test.each(['[VIP] {{ t }}', '{{ t }}', 'a {"x":"{{ t }}"}', '{name} {{ t }}', '[{{ t }}] and more'])(
    'is not every text with brackets: %s',
    (document) => {
      expect(sendAs(document, { t: 'say "hi"\\' })).toBe(document.replace('{{ t }}', 'say "hi"\\'));
    },
  );
});

test.each(['{"a":"{{ t }}",}', '{"a":"x"}\n{"b":"{{ t }}"}', '{"a":"{{ t }}"} // note', '[{"a": {{ t }} }, ]'])(
  'text that begins like JSON is JSON, for readers that take more than JSON: %s',
  (body) => {
    for (const type of ['text/plain', undefined, 'text/x-notes'])
      expect(problemsOf(() => sendBody(type as string, body, { t: '","admin":true,"x":"' }))).toEqual({
        body: [expect.stringContaining('quote_json')],
      });
  },
);

test('JSON in a header is JSON', () => {
  const sent = (value: string, t: Json) => send({ headers: [['dropbox-api-arg', value]] }, { t }).headers[0]?.[1];
  expect(sent('{"path":"/{{ t }}", "n":2}', 'a,b=c')).toBe('{"path":"/a,b=c", "n":2}');
  expect(sent('{"n":{{ t }}}', 12)).toBe('{"n":12}');
  expect(sent('{"n":{{ t | quote_json }}}', '"')).toBe('{"n":"\\""}');
  for (const [value, t] of [
    ['{"n":{{ t }}}', '1}{"admin":1'],
    ['{"n":"{{ t }}"}', '","admin":"'],
  ] as const)
    expect(problemsOf(() => sent(value, t))).toEqual({
      'headers.dropbox-api-arg': [expect.stringContaining('quote_json')],
    });
});

test('text without a type that is JSON but for its expressions is JSON', () => {
  for (const type of [undefined, 'text/plain']) {
    const sent = (t: Json) => sendBody(type as string, '{"amount": {{ t }}, "to": "x"}', { t });
    expect(sent(12)).toBe('{"amount": 12, "to": "x"}');
    expect(problemsOf(() => sent('1, "admin": true'))).toEqual({ body: [expect.stringContaining('quote_json')] });
  }
});
