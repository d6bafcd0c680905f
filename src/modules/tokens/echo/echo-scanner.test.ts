// The scanner of the echo guard: each spelling of a value, at each split of a stream.
import { describe, expect, it } from 'vitest';
import type { Json } from '../../../platform/json/json.ts';
import { runAtOnce } from '../../../platform/json/slices.ts';
import type { EchoPlace } from './echo-output.ts';
import { readEchoTexts } from './echo-patterns.ts';
import { createEchoScanner, createEchoSearch, type EchoSearch } from './echo-scanner.ts';

const searchFor = (values: Record<string, Json>): EchoSearch => {
  const texts = runAtOnce(readEchoTexts(Object.entries(values)));
  return runAtOnce(createEchoSearch(texts)) as EchoSearch;
};

const scan = (search: EchoSearch, chunks: readonly Uint8Array[], place: EchoPlace = 'text', prefix = '') => {
  const scanner = createEchoScanner(search, place, prefix);
  const out = chunks.map((chunk) => Buffer.concat(runAtOnce(scanner.push(chunk))));
  const rest = Buffer.concat(scanner.end());
  return { out, bytes: Buffer.concat([...out, rest]), echoes: scanner.echoes };
};

const mask = (search: EchoSearch, text: string | Buffer, place?: EchoPlace) =>
  scan(search, [Buffer.from(text)], place).bytes.toString();

const percentOf = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
const jsonEscapesOf = (text: string): string =>
  text
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');
const base64At = (text: string, at: number): string =>
  Buffer.concat([Buffer.from('~'.repeat(at)), Buffer.from(text), Buffer.from('?')]).toString('base64');

/** The encodings of the specification: how a destination may write a value. */
const encodings: Record<string, (text: string) => string> = {
  itself: (text) => text,
  'JSON escapes': (text) => JSON.stringify(text).slice(1, -1).replaceAll('/', '\\/'),
  'JSON escapes of all characters': jsonEscapesOf,
  'JSON escapes in upper case': (text) => jsonEscapesOf(text).replaceAll(/[a-f]/g, (digit) => digit.toUpperCase()),
  'a JSON escape of one character': (text) => text.slice(0, 3) + jsonEscapesOf(text.charAt(3)) + text.slice(4),
  'HTML names': (text) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;'),
  'HTML numbers': (text) => [...text].map((character) => `&#${character.codePointAt(0)};`).join(''),
  'HTML numbers in hex': (text) =>
    [...text].map((each) => `&#x${(each.codePointAt(0) as number).toString(16)};`).join(''),
  'HTML numbers with zeros': (text) => [...text].map((each) => `&#0000${each.codePointAt(0)};`).join(''),
  'percent escapes of a component': encodeURIComponent,
  'percent escapes of all bytes': percentOf,
  'percent escapes in upper case': (text) => percentOf(text).toUpperCase(),
  'JSON escapes within JSON': (text) => JSON.stringify(jsonEscapesOf(text)).slice(1, -1),
  'JSON within JSON': (text) => JSON.stringify(JSON.stringify(text).slice(1, -1)).slice(1, -1),
  'percent escapes within percent escapes': (text) => encodeURIComponent(percentOf(text)),
  'HTML numbers within HTML': (text) => [...text].map((character) => `&amp;#${character.codePointAt(0)};`).join(''),
  'escapes of JavaScript': (text) =>
    [...text]
      .map(
        (each, at) =>
          `${at % 2 === 0 ? '\\u{' : '%u'}${(each.codePointAt(0) as number).toString(16).padStart(4, '0')}${at % 2 === 0 ? '}' : ''}`,
      )
      .join(''),
  'another escape for each character': (text) =>
    [...text]
      .map((each, at) => [jsonEscapesOf(each), percentOf(each), `&#${each.codePointAt(0)};`][at % 3] as string)
      .join(''),
  'a form': (text) => new URLSearchParams({ a: text }).toString().slice(2),
  'base64, first alignment': (text) => base64At(text, 0),
  'base64, second alignment': (text) => base64At(text, 1),
  'base64, third alignment': (text) => base64At(text, 2),
  'base64url, first alignment': (text) => base64At(text, 0).replaceAll('+', '-').replaceAll('/', '_'),
  'base64url, second alignment': (text) => base64At(text, 1).replaceAll('+', '-').replaceAll('/', '_'),
  'base64url, third alignment': (text) => base64At(text, 2).replaceAll('+', '-').replaceAll('/', '_'),
  hex: (text) => Buffer.from(text).toString('hex'),
  'hex in upper case': (text) => Buffer.from(text).toString('hex').toUpperCase(),
};

const places: Record<string, { place: EchoPlace; around: (text: string) => string }> = {
  JSON: { place: 'json', around: (text) => `{"id":"ch_1","echo":"${text}","n":1}` },
  XML: { place: 'markup', around: (text) => `<?xml version="1.0"?><a b="${text}">1</a>` },
  HTML: { place: 'markup', around: (text) => `<p>It is ${text}.</p>` },
  form: { place: 'form', around: (text) => `id=1&echo=${text}&n=1` },
  text: { place: 'text', around: (text) => `refused: ${text}\n` },
  header: { place: 'text', around: (text) => text },
};

const values = {
  card: '4242424242424242',
  amex: '378282246310005',
  name: 'Zoë "Q" O\'Hara & <Söhne>/+ 100%41',
  secret: 'sk_live_9f+/8a==',
};

/** No run of eight characters of what was encoded. */
const holdsRunOf = (text: string, encoded: string): boolean => {
  for (let at = 0; at + 8 <= encoded.length; at += 1) if (text.includes(encoded.slice(at, at + 8))) return true;
  return false;
};

describe.each(Object.entries(encodings))('%s', (_, encode) => {
  it.each(Object.entries(places))('in %s: is masked at every split', (_name, { place, around }) => {
    for (const [id, value] of Object.entries(values)) {
      const search = searchFor({ [id]: value });
      const encoded = encode(value);
      const bytes = Buffer.from(around(encoded));
      const whole = scan(search, [bytes], place);
      expect(whole.echoes).toBe(1);
      for (let split = 1; split < bytes.length; split += 1) {
        const cut = scan(search, [bytes.subarray(0, split), bytes.subarray(split)], place);
        expect(cut.bytes.toString('latin1')).toBe(whole.bytes.toString('latin1'));
      }
      const single = scan(
        search,
        [...bytes].map((byte) => Buffer.from([byte])),
        place,
      );
      expect(single.bytes.equals(whole.bytes)).toBe(true);
      // Base64 shares the characters at its ends with its neighbours.
      const text = whole.bytes.toString();
      expect(holdsRunOf(text, encoded) && !whole.bytes.includes('{{')).toBe(false);
      expect(holdsRunOf(text.replaceAll(/[^ -~]/g, ''), value)).toBe(false);
    }
  });
});

describe('digits', () => {
  it.each(['4242 4242 4242 4242', '4242-4242-4242-4242', '4242+4242+4242+4242', '4242%204242%204242%204242'])(
    'in groups are masked: %s',
    (text) =>
      expect(mask(searchFor({ card: values.card }), `card=${text}&`, 'form')).toBe('card=%7B%7B%20card%20%7D%7D&'),
  );
  it('of a stored value in groups are masked without them', () =>
    expect(mask(searchFor({ a: '3782-822463-10005' }), 'no 378282246310005, 3782 822463 10005.')).toBe(
      'no {{ a }}, {{ a }}.',
    ));
});

describe('a mask', () => {
  const search = searchFor({ card: values.card, 'a"b': 'John "Q" Public' });
  it('in place of a number of JSON is a text', () =>
    expect(JSON.parse(mask(search, '{"a":[4242424242424242],"b":"c \\" 4242424242424242"}', 'json'))).toEqual({
      a: ['{{ card }}'],
      b: 'c " {{ card }}',
    }));
  it('is escaped as the value was', () => {
    expect(JSON.parse(mask(search, '{"a":"John \\"Q\\" Public"}', 'json'))).toEqual({ a: '{{ a"b }}' });
    expect(mask(search, '<a>John &quot;Q&quot; Public</a>', 'markup')).toBe('<a>{{ a&quot;b }}</a>');
  });
  it('keeps base64 and hex readable behind it', () => {
    const text = `id ${values.card} of the card, and more`;
    for (const coding of ['base64', 'hex'] as const) {
      const read = Buffer.from(mask(search, Buffer.from(text).toString(coding)), coding).toString('latin1');
      expect(read).toContain('{ card }');
      expect(read).toContain(' the card, and more');
    }
  });
  it('stands once for values that overlap', () =>
    expect(mask(searchFor({ a: 'aaaaaaaa', b: 'aaaaaaaaXYaaaaaaaa' }), 'x aaaaaaaaaaaaXYaaaaaaaaaa y')).toBe(
      'x {{ a }} y',
    ));
});

describe('a security code', () => {
  const search = searchFor({ card: { number: values.card, cvc: '123' } });
  it.each([
    ['{"cvc":"123","a":123}', '{"cvc":"{{ card }}","a":123}', 'json'],
    ['{"card_cvv" : 123}', '{"card_cvv" : "{{ card }}"}', 'json'],
    ['{\\"CVC\\":\\"123\\"}', '{\\"CVC\\":\\"{{ card }}\\"}', 'text'],
    ['amount=123&card[cvc]=123', 'amount=123&card[cvc]=%7B%7B%20card%20%7D%7D', 'form'],
    ['card%5Bsecurity_code%5D=123&b=1', 'card%5Bsecurity_code%5D=%7B%7B%20card%20%7D%7D&b=1', 'form'],
    ['<a:CSC>123</a:CSC>', '<a:CSC>{{ card }}</a:CSC>', 'markup'],
    ['<a cvv2="123">', '<a cvv2="{{ card }}">', 'markup'],
    ['<a name="cvc" value=\'&#49;23\'/>', '<a name="cvc" value=\'{{ card }}\'/>', 'markup'],
  ] as const)('is masked as the whole value of its name: %s', (text, masked, place) => {
    for (let split = 0; split < text.length; split += 1) {
      const parts = [Buffer.from(text.slice(0, split)), Buffer.from(text.slice(split))];
      expect(scan(search, parts, place).bytes.toString()).toBe(masked);
    }
  });
  it.each(['{"cvc":"1234"}', '{"cvc":"x123"}', '{"amount":123}', 'cvc is 123', '{"cvc":"12.3"}', '{"cvc":123.5}'])(
    'is left alone elsewhere: %s',
    (text) => expect(mask(search, text, 'json')).toBe(text),
  );
});

describe('other charsets', () => {
  it('are searched: UTF-16, UTF-32 and Latin-1', () => {
    const search = searchFor({ card: values.card, name: 'Zoë Söhne' });
    const text = `a ${values.card} b`;
    for (const zeros of [1, 3]) {
      const wide = Buffer.from([...text].map((character) => character + '\0'.repeat(zeros)).join(''));
      const masked = scan(search, [wide]).bytes.toString();
      expect(masked).toBe([...'a {{ card }} b'].map((character) => character + '\0'.repeat(zeros)).join(''));
    }
    expect(scan(search, [Buffer.from('a Zoë Söhne b', 'latin1')]).bytes.toString()).toBe('a {{ name }} b');
    expect(scan(search, [Buffer.from('a Zoë Söhne b', 'utf16le')]).bytes.toString('utf16le')).toBe('a {{ name }} b');
  });
});

describe('a stream', () => {
  const search = searchFor({ card: { number: values.card, cvc: '123' }, name: values.name });
  it('goes on line by line', () => {
    const lines = [
      'data: {"a":1}\n\n',
      'data: 4242\n\n',
      ': 100% & more\n\n',
      `data: ${values.card}\n\n`,
      'data: \\n\n\n',
    ];
    const { out } = scan(
      search,
      lines.map((line) => Buffer.from(line)),
    );
    expect(out.map(String)).toEqual([
      'data: {"a":1}\n\n',
      'data: 4242\n\n',
      ': 100% & more\n\n',
      'data: {{ card }}\n\n',
      'data: \\n\n\n',
    ]);
  });
  it('holds back the beginning of a match, and no more', () => {
    const { out, bytes } = scan(search, [Buffer.from('a 42424242'), Buffer.from('42424242 b')]);
    expect(out.map(String)).toEqual(['a ', '{{ card }} b']);
    expect(bytes.toString()).toBe('a {{ card }} b');
  });
  /** In bytes: the longest spelling of a value here, in escapes. */
  const HELD_MAX = 4_096;
  it.each([
    ['zeros behind a beginning', '4242', '\0'],
    ['escaped zeros behind a beginning', '4242', '%00'],
    ['zeros between its characters', '', `4${'\0'.repeat(8)}2`],
    ['the beginning again and again', '', '424242424242424'],
    ['the beginning in escapes', '', '\\u0034\\u0032\\u0034\\u0032 '],
    ['a number of HTML without an end', '4242&#', '0'],
    ['a character of JavaScript without an end', '4242\\u{', '0'],
    ['blanks behind the name of a code', '"cvc":', ' '],
    ['zeros behind the digits of a code', '"cvc": 123', '\0'],
  ])('keeps back little of %s', (_, beginning, repeated) => {
    const scanner = createEchoScanner(search, 'text');
    const chunks = [Buffer.from(beginning), ...Array.from({ length: 16 }, () => Buffer.alloc(16_384, repeated))];
    const came = Buffer.concat(chunks);
    const passed: Uint8Array[] = [];
    for (const chunk of chunks) {
      passed.push(...runAtOnce(scanner.push(chunk)));
      expect(scanner.held).toBeLessThan(HELD_MAX);
    }
    expect(Buffer.concat([...passed, ...scanner.end()]).equals(came)).toBe(scanner.echoes === 0);
  });
  it('of bytes without values is unchanged, 100,000 times', () => {
    const alphabet = Buffer.from('4242 42-\\u00"&#;%xcvs:=<>+aZ\0{}');
    let seed = 7;
    const random = (below: number): number => {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff;
      return Math.floor((seed / 0x80000000) * below);
    };
    for (let round = 0; round < 100_000; round += 1) {
      const isText = random(2) === 0;
      const bytes = Buffer.from(
        Array.from({ length: random(60) }, () =>
          isText ? (alphabet[random(alphabet.length)] as number) : random(256),
        ),
      );
      const split = random(bytes.length + 1);
      const { bytes: passed, echoes } = scan(search, [bytes.subarray(0, split), bytes.subarray(split)]);
      if (echoes === 0 && passed.equals(bytes)) continue;
      // What looks like a code under its name is one.
      expect(bytes.toString('latin1')).toMatch(/cv[cv2]|csc/i);
    }
  });
});
