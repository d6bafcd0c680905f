// No value changes the structure of the text around it: in every format, a receiver reads as many parts as without it.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { awkward, FORM, parts, PARTS, refusalOf, send, type Sent } from '../../../../test/support/expansion.ts';
import { AppError } from '../../../platform/base/errors.ts';

/** What changed the structure of one format or another. */
const attacks = [
  '") evil(a:"',
  '"""',
  '\\") evil #',
  '1) evil(a: 2',
  'x|y',
  'x^y',
  'x~y',
  'x:y',
  'x y',
  '=1+1',
  ' =1+1',
  '\t=1',
  '\u00a0=1+1',
  '\ufeff@SUM(B2:B9)',
  '\u200b-1',
  '\uff1d1+1',
  "'; DROP TABLE x; --",
  'x\nEMAIL:y',
  'x\r\nEND:VCARD',
  'x\u0085y',
  'x\u2028y',
  'x\x1cy',
  'x\vy',
  '"x\ny = "1',
  "', admin: 'yes",
  '<b>',
  '&e;',
  '*/ a: 1, /*',
];

const anyValue = fc.oneof(
  fc.constantFrom(...attacks),
  awkward.filter((value) => value.isWellFormed()),
);

/** The kinds of the tokens of GraphQL, JSON5 and TOML. A string that does not end makes the text invalid. */
const tokensOf =
  (comment: RegExp, string: RegExp) =>
  (text: string): string[] => {
    const token = new RegExp(`${comment.source}|(${string.source})|([\\p{L}\\p{N}_.+-]+)|([^\\s])`, 'gu');
    return [...text.matchAll(token)].flatMap(([, quoted, word, other]) => {
      if (quoted !== undefined) return ['string'];
      return word === undefined ? (other ?? []) : ['word'];
    });
  };

const graphql = tokensOf(/#[^\n\r]*/, /"""(?:\\"""|[^])*?"""|"(?:\\.|[^"\\\n\r])*"/);
const json5 = tokensOf(/\/\/[^\n\r\u2028\u2029]*|\/\*[^]*?\*\//, /"(?:\\[^]|[^"\\\n\r])*"|'(?:\\[^]|[^'\\\n\r])*'/);
const toml = tokensOf(/#[^\n\r]*/, /"(?:\\.|[^"\\\n\r])*"|'[^'\n\r]*'/);

/** All that ends a line for one program or another. */
const lineEnd = /\r\n|[^\t\P{Cc}]|[\p{Zl}\p{Zp}]/u;

/** The fields of each line, for a reader that knows this separator only. */
const csv =
  (separator: string) =>
  (text: string): string[] => {
    const lines = text.split(lineEnd);
    const fields = lines.map((line) => line.split(separator));
    for (const [index, field] of fields.flat().entries())
      if (/^[\s\p{Z}\p{Cf}"]*[=+\-@\uff1d\uff0b\uff0d\uff20]/u.test(field)) return [`a formula in field ${index}`];
    return fields.map((line) => `${line.length} fields`);
  };

const lines = (text: string): string[] => [String(text.split(lineEnd).length)];

const markup = (text: string): string[] => text.match(/<[/a-z]*|&(?!(?:[a-z]+|#\d+);)/g) ?? [];

const bodyOf = ({ body }: { body: Uint8Array | undefined }): string => Buffer.from(body ?? '').toString();

const documents = [
  '{ f(a: "{{ t }}") }',
  'query Q { f(a: {{ t }}, b: """{{ t }}""") { g } }',
  '# "{{ t }}\n{ f(a: "x{{ t }}y") }',
];

type Case = [name: string, sent: Sent, read: (made: ReturnType<typeof send>) => string[]];

const ofDocuments = (name: string, at: (document: string) => Sent, read: (made: ReturnType<typeof send>) => string) =>
  documents.map((document, index): Case => [`${name}, document ${index}`, at(document), (made) => graphql(read(made))]);

const separators = [',', ';', '\t', '|', '^', '~', ':', ' ', '/', '!', '\u00a6', '::'];

const cases: Case[] = [
  ...ofDocuments(
    'GraphQL in JSON',
    (query) => ({ type: 'application/json', body: JSON.stringify({ variables: {}, query }) }),
    (made) => JSON.parse(bodyOf(made)).query,
  ),
  ...ofDocuments(
    'GraphQL in a list of JSON',
    (query) => ({ type: 'application/graphql+json', body: JSON.stringify([{ query }]) }),
    (made) => JSON.parse(bodyOf(made))[0].query,
  ),
  ...ofDocuments(
    'GraphQL in an escaped member',
    (query) => ({ type: undefined, body: `{"\\u0071uery":${JSON.stringify(query)}}` }),
    (made) => JSON.parse(bodyOf(made)).query,
  ),
  ...ofDocuments(
    'GraphQL in a form',
    (query) => ({ type: FORM, body: `a=b&query=${encodeURIComponent(query)}` }),
    (made) => new URLSearchParams(bodyOf(made)).get('query') ?? '',
  ),
  ...ofDocuments(
    'GraphQL in the query',
    (query) => ({ query: `query=${encodeURIComponent(query)}` }),
    ({ query }) => new URLSearchParams(query).get('query') ?? '',
  ),
  ...ofDocuments(
    'GraphQL in a part',
    (query) => ({ type: PARTS, body: parts(['Content-Disposition: form-data; name="query"', query]) }),
    (made) => bodyOf(made).split('\r\n\r\n')[1]?.split('\r\n--b')[0] ?? '',
  ),
  ...ofDocuments('GraphQL', (body) => ({ type: 'application/graphql', body }), bodyOf),
  ...separators.flatMap((separator): Case[] => [
    [
      `CSV by ${JSON.stringify(separator)}`,
      { type: 'text/csv', body: `a${separator}{{ t }}\n{{ t }}${separator}1\n` },
      (made) => csv(separator)(bodyOf(made)),
    ],
    [
      `CSV by ${JSON.stringify(separator)}, with a comma and a quotation mark in a text`,
      {
        type: 'text/csv',
        body: `Smith, J 5" x${separator}{{ t }}${separator}x\n{{ t }}${separator}Smith, J\nx, y${separator}{{ t }}`,
      },
      (made) => (separator === ' ' ? [] : csv(separator)(bodyOf(made))),
    ],
    [
      `CSV by ${JSON.stringify(separator)}, alone in its line`,
      { type: 'text/csv', body: `name${separator}code\n{{ t }}\n` },
      (made) => csv(separator)(bodyOf(made)),
    ],
  ]),
  ...['vcard', 'calendar', 'markdown', 'x-java-properties', 'plain', 'directory', 'uri-list'].map((type): Case => [
    type,
    { type: `text/${type}`, body: 'BEGIN:X\r\nNOTE:{{ t }}\r\n{{ t }}\r\nEND:X\r\n' },
    (made) => lines(bodyOf(made)),
  ]),
  [
    'JSON5',
    { type: 'application/json5', body: '{ a: "{{ t }}", /* it\'s */ b: {{ t }}, // "\n c: \'{{ t }}\' }' },
    (made) => json5(bodyOf(made)),
  ],
  ['TOML', { type: 'application/toml', body: 'a = "{{ t }}" # "\nb = {{ t }}\n' }, (made) => toml(bodyOf(made))],
  ...['text/xml-external-parsed-entity', 'application/xml-external-parsed-entity', 'text/xsl', 'text/html'].map(
    (type): Case => [type, { type, body: '<a b="{{ t }}">{{ t }}</a>' }, (made) => markup(bodyOf(made))],
  ),
];

test.each(cases)('%s is read with the same structure, or the value is refused (property)', (_, sent, read) => {
  const expected = read(send(sent, { t: 'v' }));
  let passed = 0;
  const check = (value: string): void => {
    let made: ReturnType<typeof send>;
    try {
      made = send(sent, { t: value });
    } catch (error) {
      expect(error).toBeInstanceOf(AppError);
      if (value.length > 8) expect(JSON.stringify((error as AppError).errors)).not.toContain(value);
      return;
    }
    passed += 1;
    // A value without a character is no token. The structure around it is that without it.
    const structure = read(made);
    if (value.trim() !== '') expect(structure, JSON.stringify(value)).toEqual(expected);
  };
  for (const value of ['v', 'Ada', '4711', 'a_b.c', ...attacks]) check(value);
  expect(passed).toBeGreaterThan(2);
  fc.assert(fc.property(anyValue, check), { numRuns: 300 });
});

test('values of customers pass where they change nothing', () => {
  const document = '{ f(a: "{{ t }}") }';
  const inJson = send(
    { type: 'application/json', body: JSON.stringify({ query: document }) },
    { t: "O'Neil & Co, 5%" },
  );
  expect(JSON.parse(bodyOf(inJson)).query).toBe(`{ f(a: "O'Neil & Co, 5%") }`);
  // A search that is no document takes any value, and the whole of a document may be a value.
  for (const query of ['name is "{{ t }}"', '{{ t }}'])
    expect(
      JSON.parse(bodyOf(send({ type: 'application/json', body: JSON.stringify({ query }) }, { t: 'a"b' }))).query,
    ).toBe(query.replace('{{ t }}', 'a"b'));
  const quoted = JSON.stringify({ query: '{ f(a: {{ t | quote_json }}) }' });
  expect(JSON.parse(bodyOf(send({ type: 'application/json', body: quoted }, { t: 'a"b' }))).query).toBe(
    '{ f(a: "a\\"b") }',
  );
  const row = 'name,street\n{{ t }},1\n';
  expect(bodyOf(send({ type: 'text/csv', body: row }, { t: "Anna-Marie O'Neil (née Ray): 50 % / a^b" }))).toContain(
    'née',
  );
  expect(bodyOf(send({ type: 'text/csv', body: 'a|{{ t | quote_csv }}\n' }, { t: 'x|y' }))).toBe('a|"x|y"\n');
  for (const body of ['{{ t }}', ' {{ t }}\r\n'])
    expect(bodyOf(send({ type: 'text/plain', body }, { t: 'a\nb' }))).toBe(body.replace('{{ t }}', 'a\nb'));
});

test('a refusal in a document says to use variables', () => {
  const body = JSON.stringify({ query: '{ f(a: "{{ t }}") }' });
  const { errors } = refusalOf(() => send({ type: 'application/json', body }, { t: '")' }));
  expect(errors?.['body.query']?.join()).toContain('`variables`');
});

describe('HTML', () => {
  const html = (body: string, t = 'v') => bodyOf(send({ type: 'text/html', body }, { t }));

  test.each([
    '<script>var a = "{{ t }}"</script>',
    '<SCRIPT type=x>{{ t }}',
    '<script><!-- </b> {{ t }}</script>',
    '<svg:script>{{ t }}</svg:script>',
    '<style>a { color: {{ t }} }</style>',
    '<noscript>{{ t }}</noscript>',
    '<iframe>{{ t }}</iframe>',
    '<xmp>{{ t }}</xmp>',
    '<plaintext>{{ t }}',
    '<a onclick="f(\'{{ t }}\')">',
    '<a OnLoad = \'f("{{ t }}")\'>',
    '<a style="color: {{ t }}">',
    '<iframe srcdoc="<p>{{ t }}">',
    '<a on\nclick\n=\n"a" onfocus="{{ t }}">',
  ])('%s is refused', (body) => {
    for (const type of ['text/html', 'application/xhtml+xml', 'image/svg+xml', 'text/html; charset=iso-8859-1'])
      expect(refusalOf(() => send({ type, body }, { t: 'v' })).errors?.['body']?.join(), type).toContain('script');
  });

  test.each([
    '<script src="{{ t }}"></script><p>{{ t }}</p>',
    '<script>var a = 1 < 2;</script ><b title="{{ t }}">{{ t }}</b>',
    '<style>a{}</style>{{ t }}<styles>{{ t }}</styles>',
    '<p data-value="{{ t }}" title=\'{{ t }}\'>{{ t }}</p>',
    '<title>{{ t }}</title><textarea>{{ t }}</textarea>',
    '<input name="on" value="{{ t }}">',
  ])('%s takes a value', (body) => {
    expect(html(body)).toBe(body.replaceAll('{{ t }}', 'v'));
  });

  test.each(['javascript:f()', ' \tJava\nScript:f()', 'vbscript:x', 'data:text/html,<script>', 'data:image/svg+xml,x'])(
    '%j begins no attribute',
    (value) => {
      expect(refusalOf(() => html('<a href="{{ t }}">', value)).status).toBe(400);
      expect(html('<a href="https://shop.test/{{ t }}">', value)).toContain('https://shop.test/');
      expect(html('<p>{{ t }}</p>', value)).toContain('<p>');
    },
  );

  test('in XML, script and style are names like others', () => {
    const body = '<shop><style>{{ t }}</style><script on="{{ t }}"/></shop>';
    expect(bodyOf(send({ type: 'application/xml', body }, { t: 'v' }))).toBe(body.replaceAll('{{ t }}', 'v'));
  });
});
