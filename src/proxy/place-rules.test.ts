// A value cannot change the structure around it, in headers, CSV, YAML, GraphQL and in JSON by another name.
import { describe, expect, test } from 'vitest';
import { parts, PARTS, problemsOf, refusalOf, send, sendBody } from '../../test/support/expansion.ts';
import type { Json } from '../vault/json.ts';

const inHeader = (template: string, t: string) => send({ headers: [['x', template]] }, { t }).headers[0]?.[1];

/** Each of these is refused, without a word of the value. */
const expectRefused = (work: (value: string) => unknown, values: string[], place: string) => {
  for (const value of values) {
    const problems = problemsOf(() => work(value)) as Record<string, string[]>;
    expect(Object.keys(problems), value).toEqual([place]);
    expect(problems[place]?.[0]).toMatch(/^must /);
    if (value.length > 2) expect(JSON.stringify(problems)).not.toContain(value);
  }
};

describe('a header', () => {
  test.each(['{{ t }}', 'Bearer {{ t }}', ' {{ t }} ', '{{ t }}{{ t }}', 'AWS4-HMAC-SHA256 {{t}}'])(
    '%j has no structure around its value',
    (template) => {
      const value = 'a"; b=c, d\\';
      expect(inHeader(template, value)).toBe(template.replace(/\{\{ ?t ?\}\}/g, () => value));
    },
  );

  test.each(['a; name="{{ t }}"', 'Digest username="x\\"y", uri="/{{ t }}", a=b', '"{{ t }}"'])(
    'in the quotes of %j takes no quotation mark and no backslash',
    (template) => {
      expect(inHeader(template, 'a, b; c=d')).toBe(template.replace('{{ t }}', 'a, b; c=d'));
      expectRefused((value) => inHeader(template, value), ['x", admin="yes', '\\'], 'headers.x');
    },
  );

  test.each(['session={{ t }}', 'a; name={{ t }}', 'Digest uri={{ t }}, a="b"', 'a=b; c=x{{ t }}y'])(
    'in the parameter of %j takes the characters of a token alone',
    (template) => {
      expect(inHeader(template, "A1!#$%&'*+-.^_`|~")).toBe(template.replace('{{ t }}', () => "A1!#$%&'*+-.^_`|~"));
      expectRefused(
        (value) => inHeader(template, value),
        ['a; b', 'a,b', 'a b', 'a"b', 'a=b', 'é', 'a/b'],
        'headers.x',
      );
    },
  );

  test('a value quoted by quote_json may be a parameter', () => {
    expect(inHeader('a; name={{ t | quote_json }}', 'b"; c')).toBe(String.raw`a; name="b\"; c"`);
    expectRefused((value) => inHeader('a; name=x{{ t | quote_json }}', value), ['b'], 'headers.x');
  });

  test('with other text around the value takes no delimiter', () => {
    expect(inHeader('see {{ t }}, please', 'a b')).toBe('see a b, please');
    expectRefused((value) => inHeader('see {{ t }}, please', value), ['a, b', 'a;b', 'a=b', '"'], 'headers.x');
    expectRefused((value) => inHeader('x="a\\{{ t }}"', value), ['', 'b'], 'headers.x');
  });
});

test.each([undefined, 'text/plain', 'application/x-json'])('JSON of the type %s is JSON', (type) => {
  const value = 'x","amount":0,"admin":"yes';
  const sent = sendBody(type, '{ "note": "{{ t }}", "amount": "{{ u }}" }', { t: value, u: 12 });
  expect(sent).toBe(`{ "note": ${JSON.stringify(value)}, "amount": 12 }`);
  expect(sendBody(type, '{"a":"\\u007b\\u007b t }}"}', { t: 'v' })).toBe('{"a":"v"}');
});

test('JSON in a part without a type is JSON', () => {
  const sent = sendBody(PARTS, parts(['', '{"note":"{{ t }}"}']), { t: 'x","admin":"yes' });
  expect(sent).toContain(String.raw`{"note":"x\",\"admin\":\"yes"}`);
});

test.each(['text/csv', 'application/csv', 'text/tab-separated-values'])('%s keeps its fields and rows', (type) => {
  for (const template of ['a,{{ t }},b\n', '{{ t }}', 'a,"{{ t }}"']) {
    expect(sendBody(type, template, { t: 'x y 1=2' })).toBe(template.replace('{{ t }}', 'x y 1=2'));
    const values = ['a,b', 'a;b', 'a\tb', 'a\nb', 'a\rb', '"', "=cmd|' /C calc'!A0", '+1', '-1', '@SUM(1)'];
    expectRefused((t) => sendBody(type, template, { t }), values, 'body');
  }
  expect(sendBody(type, 'a,{{ t | quote_csv }},b', { t: '="x",\n' })).toBe('a,"=""x"",\n",b');
  expectRefused((t) => sendBody(type, 'a{{ t | quote_csv }},b', { t }), ['x'], 'body');
  expectRefused((t) => sendBody(type, '"{{ t | quote_csv }}",b', { t }), ['x'], 'body');
});

describe('YAML', () => {
  const yaml = (template: string, t: Json) => sendBody('application/yaml', template, { t });

  test.each(['a: "{{ t }}"', '- "x {{ t }} y"', '{ a: "{{ t }}" }', '["{{ t }}"]', '"{{ t }}": 1'])(
    'in the double quotes of %j takes what does not end them',
    (template) => {
      expect(yaml(template, 'a: b, #c')).toBe(template.replace('{{ t }}', 'a: b, #c'));
      expectRefused((value) => yaml(template, value), ['a"\nadmin: true', '\\', 'a\nb', 'a\u0085b'], 'body');
    },
  );

  test.each([
    'a: {{ t }}',
    '{{ t }}: 1',
    "a: '{{ t }}'",
    'a: |\n  {{ t }}',
    '# "{{ t }}"',
    'a: x "{{ t }}"',
    'a: "x\n  y {{ t }}"',
    `a: it's "{{ t }}"`,
  ])('elsewhere, as in %j, takes letters, digits, _, . and - alone', (template) => {
    expect(yaml(template, 'Ab_1.2-3')).toBe(template.replace('{{ t }}', 'Ab_1.2-3'));
    expectRefused((value) => yaml(template, value), ['a: b', 'a b', 'a,b', '{a}', "'", '"', 'a\nb', '#'], 'body');
  });

  test('takes anything that quote_yaml or quote_json quoted', () => {
    expect(yaml('a: {{ t | quote_yaml }}', 'x"\n\u2028: y')).toBe(String.raw`a: "x\"\n\u2028: y"`);
    expect(yaml('[{{ t | quote_json }}]', { a: '"' })).toBe(String.raw`["{\"a\":\"\\\"\"}"]`);
    expectRefused((value) => yaml('a: x {{ t | quote_yaml }}', value), ['b'], 'body');
    expectRefused((value) => yaml('a: "{{ t | quote_yaml }}"', value), ['b'], 'body');
  });
});

describe('GraphQL', () => {
  const graphql = (template: string, t: Json) => sendBody('application/graphql', template, { t });

  test.each(['{ a(b: "{{ t }}") }', '{ a(b: """\n "x" {{ t }}""") }', '{ a(b: "\\"{{ t }}") }'])(
    'in the quotes of %j takes what does not end them',
    (template) => {
      expect(graphql(template, 'a) { b }')).toBe(template.replace('{{ t }}', 'a) { b }'));
      expectRefused((value) => graphql(template, value), ['") deleteAll(x: "', '\\', 'a\nb'], 'body');
    },
  );

  test.each(['{ a(b: {{ t }}) }', '# "\n{ {{ t }} }', '{ a(b: "") {{ t }} }'])(
    'elsewhere, as in %j, takes words',
    (template) => {
      expect(graphql(template, 'Ab_1.2-3')).toBe(template.replace('{{ t }}', 'Ab_1.2-3'));
      expectRefused((value) => graphql(template, value), ['1) { b } c(d: 2', 'a b', '"a"', '#', '{'], 'body');
    },
  );

  test('takes anything that quote_json quoted', () => {
    expect(graphql('{ a(b: {{ t | quote_json }}) }', '") {')).toBe(String.raw`{ a(b: "\") {") }`);
    expect(refusalOf(() => graphql('{ a(b: "{{ t | quote_json }}") }', 'x')).status).toBe(400);
  });
});
