// Tests that a value cannot change the structure around it in headers, CSV, YAML and GraphQL.
import { describe, expect, test } from 'vitest';
import { parts, PARTS, problemsOf, refusalOf, send, sendBody } from '../../../../test/support/expansion.ts';
import type { Json } from '../../../platform/json/json.ts';

const inHeader = (template: string, t: string) => send({ headers: [['x', template]] }, { t }).headers[0]?.[1];

/** Expects that each value is refused, with an error that does not contain it. */
const expectRefused = (work: (value: string) => unknown, values: string[], place: string) => {
  for (const value of values) {
    const problems = problemsOf(() => work(value)) as Record<string, string[]>;
    expect(Object.keys(problems), value).toEqual([place]);
    expect(problems[place]?.[0]).toMatch(/^must /);
    if (value.length > 2) expect(JSON.stringify(problems)).not.toContain(value);
  }
};

describe('a header', () => {
  test.each(['{{ t }}', 'Bearer {{ t }}', ' {{ t }} ', 'basic\t{{t}}'])(
    '%j has no structure around its value',
    (template) => {
      const value = 'a"; b=c, d\\';
      expect(inHeader(template, value)).toBe(template.replace(/\{\{ ?t ?\}\}/g, () => value));
    },
  );

  test.each([
    '{{ t }}{{ u }}',
    ' {{ t }} {{ u }}',
    '{{ t }}\t{{ u }} ',
    'Bearer {{ t }}{{ u }}',
    'Basic {{ t }} {{ u }}',
  ])('of two values, %j, is a text with parts: neither value may have a delimiter', (template) => {
    const both = (name: string, t: string, u: string) =>
      send({ headers: [[name, template]] }, { t, u }).headers[0]?.[1];
    expect(both('x-name', 'Ada', "O'Neill")).toBe(template.replace('{{ t }}', 'Ada').replace('{{ u }}', "O'Neill"));
    for (const name of ['x', 'Authorization', 'Cookie']) {
      const values = [', admin', '; admin=1', 'x="1'];
      expectRefused((value) => both(name, 'user', value), values, `headers.${name}`);
      expectRefused((value) => both(name, value, 'user'), values, `headers.${name}`);
    }
  });

  test('of credentials has none behind any scheme, others have it behind Basic and Bearer only', () => {
    const value = 'a"; b=c, d\\';
    for (const name of ['authorization', 'Proxy-Authorization'])
      expect(send({ headers: [[name, 'AWS4-HMAC-SHA256 {{ t }}']] }, { t: value }).headers[0]?.[1]).toContain(value);
    expect(inHeader('user {{ t }}', 'a b')).toBe('user a b');
    expectRefused((t) => inHeader('user {{ t }}', t), ['a, admin; q=1', 'a"', 'a; q'], 'headers.x');
  });

  test('that is a cookie takes no comma and no semicolon, quoted or not', () => {
    const inCookie = (template: string, t: string) => send({ headers: [['Cookie', template]] }, { t }).headers[0]?.[1];
    expect(inCookie('{{ t }}', 'a=1; b=2')).toBe('a=1; b=2');
    expect(inCookie('a="{{ t }}"; role=user', 'x y=z')).toBe('a="x y=z"; role=user');
    expect(inCookie('a={{ t | quote_json }}; role=user', 'x y')).toBe('a="x y"; role=user');
    for (const template of ['a="{{ t }}"; role=user', 'a={{ t | quote_json }}; role=user', 'a={{ t }}', 'x {{ t }}'])
      expectRefused((t) => inCookie(template, t), ['x; role=admin', 'x,role=admin'], 'headers.Cookie');
  });

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

  test.each(['{{ t }}=1', 'a=b; {{ t }}=1', 'a=b; {{ t }}', '{{ t }}; a=b', 'a=b;\t{{ t }}{{ t }} =1', '"{{ t }}"=1'])(
    'with the name of a cookie from a token is refused: %s',
    (template) => {
      const sent = () => send({ headers: [['Cookie', template]] }, { t: 'v' });
      expect(problemsOf(sent)).toEqual({ 'headers.Cookie': ['must have its expressions in the values of cookies'] });
    },
  );

  test.each(['{{ t }}=1', 'a; {{ t }} = 1', 'a,\t{{ t }}{{ t }}="x"', 'return=minimal; {{t}}=1'])(
    'with the name of a parameter from a token is refused: %s',
    (template) => {
      const sent = () => send({ headers: [['prefer', template]] }, { t: 'v' });
      expect(problemsOf(sent)).toEqual({ 'headers.prefer': [expect.stringContaining('name of a parameter')] });
    },
  );

  test.each(['sum {{ t }} = 1', 'a; b {{ t }}', '{{ t }}; a=1', 'a={{ t }}; b="{{ t }}"', '{{ t }}, {{ t }}'])(
    'with values elsewhere is sent: %s',
    (template) => {
      expect(send({ headers: [['x', template]] }, { t: 'v' }).headers).toEqual([
        ['x', template.replace(/\{\{ t \}\}/g, 'v')],
      ]);
    },
  );

  test.each(['Content-Type', 'content-encoding', 'Content-Transfer-Encoding'])(
    'that says how the body is read takes no value: %s',
    (name) => {
      for (const value of ['{{ t }}', 'text/plain; charset={{ t }}', 'gzip, {{ t }}'])
        expect(problemsOf(() => send({ headers: [[name, value]], body: '<a/>' }, { t: 'v' }))).toEqual({
          [`headers.${name}`]: ['must have no expressions: the header says how the body is searched for them'],
        });
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

test.each<[string, string, string]>([
  ['text/x-json', '{"a":"{{ t }}"}', 'b","admin":"yes'],
  ['text/x-yml', 'a: {{ t }}', 'b\nadmin: true'],
  ['text/yml', 'a: {{ t }}', 'b\nadmin: true'],
  ['application/yml', 'a: {{ t }}', 'b\nadmin: true'],
  ['text/tsv', 'a\t{{ t }}', 'b\tadmin'],
  ['text/x-graphql', '{ a(b: {{ t }}) }', '1) { admin(c: 2'],
  ['text/x-ndjson', '{"a":"{{ t }}"}\n', 'b","admin":"yes'],
])('the type %s is known by its words', (type, template, value) => {
  const work = () => sendBody(type, template, { t: value });
  if (type.includes('json')) expect(JSON.parse(work())).toEqual({ a: value });
  else expect(problemsOf(work)).toEqual({ body: [expect.stringMatching(/^must put /)] });
});

test.each(['text/csv', 'application/csv', 'text/tab-separated-values'])('%s keeps its fields and rows', (type) => {
  for (const template of ['a,{{ t }},b\n', '{{ t }}', 'a,"{{ t }}"']) {
    expect(sendBody(type, template, { t: 'x y 1=2' })).toBe(template.replace('{{ t }}', 'x y 1=2'));
    const values = [
      'a,b',
      'a;b',
      'a\tb',
      'a\nb',
      'a\rb',
      '"',
      "=cmd|' /C calc'!AB",
      '+1',
      '-1',
      '@SUM(1)',
      'a\vb',
      'a\fb',
      'a\x85b',
      'a\u2028b',
      'a\u2029b',
    ];
    expectRefused((t) => sendBody(type, template, { t }), values, 'body');
  }
  expect(sendBody(type, 'a,{{ t | quote_csv }},b', { t: 'x="x",\n' })).toBe('a,"x=""x"",\n",b');
  for (const t of ['+49 (170) 123-456', '-5.30', '- 7', '+1', 'a-b', 'x@example.com', ''])
    expect(sendBody(type, 'a,{{ t | quote_csv }}', { t })).toBe(`a,"${t}"`);
  const formulas = [
    '=1',
    ' =1',
    '@SUM(AB)',
    '+AB',
    "-cmd|' /C calc'!AB",
    '\t=1',
    '\uff1d1',
    '+1+AB',
    '--A1',
    '\u200b=1',
  ];
  expectRefused((t) => sendBody(type, 'a,{{ t | quote_csv }},b', { t }), formulas, 'body');
  expectRefused((t) => sendBody(type, 'a{{ t | quote_csv }},b', { t }), ['x'], 'body');
  expectRefused((t) => sendBody(type, '"{{ t | quote_csv }}",b', { t }), ['x'], 'body');
});

describe('YAML', () => {
  const yaml = (template: string, t: Json) => sendBody('application/yaml', template, { t });

  test.each(['a: "{{ t }}"', '- "x {{ t }} y"', '{ a: "{{ t }}" }', '["{{ t }}"]', '"{{ t }}": 1'])(
    'in the double quotes of %j takes what does not end them',
    (template) => {
      expect(yaml(template, 'a: b, #c')).toBe(template.replace('{{ t }}', 'a: b, #c'));
      expectRefused(
        (value) => yaml(template, value),
        ['a"\nadmin: true', '\\', 'a\nb', 'a\u0085b', 'a\u2028b'],
        'body',
      );
    },
  );

  test.each([
    '- Smith, {{ t | quote_yaml }}',
    '- Smith [x, {{ t | quote_yaml }}]',
    '- [Smith], {{ t | quote_yaml }}',
    '- what ? {{ t | quote_yaml }}',
    '-{{ t | quote_yaml }}',
    '--{{ t | quote_yaml }}',
    '- Smith, "{{ t }}"',
  ])('begins no value in %j', (template) => {
    expectRefused((value) => yaml(template, value), ['x: admin', 'x y'], 'body');
  });

  test.each([
    '- {{ t | quote_yaml }}',
    '- - {{ t | quote_yaml }}',
    '? {{ t | quote_yaml }}',
    'a: {b: [c, {{ t | quote_yaml }}]}',
  ])('begins a value in %j', (template) =>
    expect(yaml(template, 'x: y')).toBe(template.replace('{{ t | quote_yaml }}', '"x: y"')),
  );

  test('takes a number with its sign for a word, and nothing else that begins with a dash or dot', () => {
    expect(yaml('a: {{ t }}', -12.5)).toBe('a: -12.5');
    expectRefused((value) => yaml('{{ t }}\n', value), ['-', '---', '...', '--- x', '.a', '-a', '--1'], 'body');
  });

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
