// The time of functions that see input of clients, destinations or code grows with its size, and not with its square.
// The functions are found in the source: a new one fails here until its arguments are known.
import { globSync, readFileSync } from 'node:fs';
import { Duplex } from 'node:stream';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import { createCodedTexts, createExpansion, createReferences } from '../../src/modules/tokens/expressions/expansion.ts';
import { createMeter } from '../../src/modules/tokens/expressions/meter.ts';
import { createOpenedTexts, createPrefixSet } from '../../src/modules/tokens/expressions/opened-texts.ts';
import { scanTemplate, type Template } from '../../src/modules/tokens/expressions/template.ts';
import { createCandidates } from '../../src/modules/tokens/echo/echo-candidates.ts';
import { readEchoTexts } from '../../src/modules/tokens/echo/echo-patterns.ts';
import { createEchoScanner, createEchoSearch, type EchoSearch } from '../../src/modules/tokens/echo/echo-scanner.ts';
import { createAccounts } from '../../src/platform/base/accounts.ts';
import { callHead, doneHead } from '../../src/platform/sandbox/host/heads.ts';
import { unpaid } from '../../src/platform/sandbox/host/paced-reads.ts';
import { createFrameReader, encodeFrame, frameKinds } from '../../src/platform/sandbox/protocol/frames.ts';
import type { Headers } from '../../src/platform/egress/headers.ts';
import { type Json, walkJson } from '../../src/platform/json/json.ts';
import { runAtOnce, type Slices } from '../../src/platform/json/slices.ts';

const source = fileURLToPath(new URL('../../src', import.meta.url));

/** Folders of functions that see bodies, headers, queries, values, answers, expressions or messages of executors. */
const folders = [
  'modules/proxy/bodies',
  'modules/proxy',
  'modules/code',
  'modules/tokens/expressions',
  'modules/tokens/echo',
  'platform/egress',
  'platform/http',
  'platform/json',
  'platform/sandbox/host',
  'platform/sandbox/protocol',
];

// --- Shapes ---

type Input = { text: string; value: Json; headers: Headers };

/** Containers around the values: as many as a client may send, but one. */
const LEVELS = 60;

const nest = (value: Json): Json => {
  let nested = value;
  for (let level = 0; level < LEVELS; level += 1) nested = level % 2 === 0 ? [nested] : { a: nested };
  return nested;
};

const list = (length: number, item: (index: number) => Json): Json[] =>
  Array.from({ length }, (_, index) => item(index));

const repeat = (unit: string, characters: number): string => unit.repeat(Math.ceil(characters / unit.length));

/** As many characters of JSON. */
const textOfValue = (value: Json): { text: string; value: Json } => ({ text: JSON.stringify(value), value });

const textAlone = (text: string): { text: string; value: Json } => ({ text, value: text });

const shapes: Record<string, (characters: number) => { text: string; value: Json }> = {
  braces: (characters) => textAlone(repeat('{{', characters)),
  blanks: (characters) => textAlone(`a${repeat(' ', characters)}b`),
  brackets: (characters) => textOfValue(list(characters / 3, () => [])),
  deep: (characters) => textOfValue(nest(list(characters / 6, () => 'abc'))),
  // V8 keeps objects of more than 1,020 properties in another way: all have more.
  wide: (characters) =>
    textOfValue(Object.fromEntries(Array.from({ length: characters / 5 }, (_, index) => [`k${index}`, 1]))),
  'repeated names': (characters) => ({
    text: repeat('a=1&', characters),
    value: list(characters / 8, () => ({ a: 1 })),
  }),
  escapes: (characters) => ({
    text: `"${repeat('\\u007b%7B&#123;\\"', characters)}"`,
    value: repeat('"\\\u0001', characters),
  }),
  'one-byte chunks': (characters) => ({ text: repeat('a\n', characters), value: list(characters / 4, () => 'a') }),
  'long names': (characters) => textOfValue({ [repeat('name', characters)]: '{{ a }}' }),
  'many expressions': (characters) => textOfValue(list(characters / 10, () => '{{ a }}')),
  'many tokens': (characters) => textAlone(list(characters / 14, (index) => `{{ ${1e6 + index} }} `).join('')),
  numbers: (characters) => textOfValue(list(characters / 4, () => 1.5)),
  mixed: (characters) => textAlone(repeat(`{{'['{{ a | b: "}}" }}&=;, --x\r\n<a b='"\\u007b%7b{[`, characters)),
};

const inputOf = (shape: string, characters: number): Input => {
  const { text, value } = (shapes[shape] as (typeof shapes)[string])(characters);
  const field = text.replace(/[\r\n]/g, ' ');
  const pieces = field.match(/.{1,8}/gs) ?? [];
  return {
    text,
    value,
    headers: [
      ['content-type', `text/plain; ${field}`],
      ['content-encoding', field],
      ['connection', field],
      ['cookie', field],
      ...pieces.map((piece, index): [string, string] => [index % 2 === 0 ? 'x-same' : `x-${index}`, piece]),
      ...pieces.map((piece): [string, string] => ['set-cookie', piece]),
    ],
  };
};

// --- Functions ---

/** Types and names of parameters that hold input. */
const input =
  /[:<] ?(?:readonly )?(?:Json|Input|Headers|Message|Buffer|Uint8Array|AsyncIterable|Template|TextParts|RequestPlaces|FilterCall|ParsedBody|LogLine|Frame|Socket|EgressResponse|ProxyAnswer|IncomingBody|EgressFetch)\b|Pick<Target\b|\b(?:text|raw|query|rawUrl|label|content|literal|expression|coding|boundary|value): string\b|\b(?:root|input|thrown): unknown\b|\bhead: object\b/;

/** The parameters of a list, split at commas outside of brackets. */
const split = (parameters: string): string[] => {
  const parts: string[] = [];
  let depth = 0;
  let from = 0;
  for (let at = 0; at <= parameters.length; at += 1) {
    const each = parameters[at] ?? ',';
    const isArrow = each === '>' && parameters[at - 1] === '=';
    if ('([{<'.includes(each)) depth += 1;
    else if (')]}>'.includes(each) && !isArrow) depth -= 1;
    else if (each === ',' && depth === 0) {
      parts.push(parameters.slice(from, at).trim());
      from = at + 1;
    }
  }
  return parts.filter((part) => part !== '');
};

type Found = { id: string; file: string; name: string; parameters: string[] };

const exported =
  /^export (?:const (\w+)(?:: [^=\n]+?)? = (?:async )?(?:<[^=]*?>)?\(|(?:async )?function\*? (\w+)(?:<.*?>)?\()/gm;

const functionsIn = (file: string): Found[] => {
  const text = readFileSync(join(source, file), 'utf8');
  return [...text.matchAll(exported)].map((match) => {
    const from = match.index + match[0].length;
    let depth = 1;
    let to = from;
    for (; depth > 0; to += 1)
      depth += Number('([{'.includes(text[to] as string)) - Number(')]}'.includes(text[to] as string));
    const name = match[1] ?? (match[2] as string);
    const parameters = split(
      text
        .slice(from, to - 1)
        .replace(/\/\*\*?.*?\*\//gs, '')
        .replace(/\s+/g, ' '),
    );
    return { id: `${file.replace(/\.ts$/, '')} ${name}`, file, name, parameters };
  });
};

const functions = globSync(
  folders.map((folder) => `${folder}/*.ts`),
  { cwd: source, exclude: (path) => path.endsWith('.test.ts') },
)
  .flatMap(functionsIn)
  .filter(({ parameters }) => parameters.some((parameter) => input.test(parameter)));

// --- Arguments ---

const environment = { hmac: () => 'digest', randomInt: () => 1 };

const expansion = () => createExpansion(() => ({ data: 'v' }), environment);

const templateOf = (text: string): Template => {
  try {
    return scanTemplate(text);
  } catch {
    return { parts: [text], draws: false };
  }
};

/** Arguments of filters that need some. */
const filterArguments: Record<string, (string | number)[]> = {
  hmac: ['sha-256', 'key'],
  json: ['$..a'],
  lastCharacters: [4],
  remove: ['a'],
  replace: ['a', 'b'],
  reveal: [1, 1],
  slice: [0, 3],
  split: [','],
};

/** The arguments of parameters by their declaration. */
const argumentsOf: [declaration: RegExp, make: (given: Input, of: Found) => unknown][] = [
  [/^rawUrl: string$/, ({ text }) => `/proxy?${text}`],
  [
    /^(?:text|raw|query|label|content|literal|expression|coding|value|one|other): string(?: \| undefined)?$/,
    ({ text }) => text,
  ],
  [
    /^(?:value|root|target|patch|shape|body|args|args|given|data|from)\??: (?:Json|unknown)(?: \| undefined)?$/,
    ({ value }) => value,
  ],
  [/: Headers$/, ({ headers }) => headers],
  [/: (?:Buffer|Uint8Array)$/, ({ text }) => Buffer.from(text)],
  [/: Template$/, ({ text }) => templateOf(text)],
  [
    /^(?:message|answer): Message$/,
    ({ text }) => ({ headers: [['content-type', 'application/json']], body: Buffer.from(text) }),
  ],
  [/^call: Call$/, (_, { name }) => ({ name, args: filterArguments[name] ?? [], environment, meter: createMeter() })],
  [/: References$|Pick<References/, () => createReferences()],
  [/: Expansion$|: Evaluation$/, expansion],
  [/^environment: ExpressionEnvironment$/, () => environment],
  [/^meter: Meter$/, createMeter],
  [/^count: ScanCount$/, () => ({ steps: 0 })],
  [/^path: Path$/, () => ['body']],
  [/^place: string$/, () => 'body'],
  [/^encode: |^write: /, () => (value: string) => value],
  [/^encodeAt: /, () => () => (value: string) => value],
  [/^charset: Charset$/, () => 'latin1'],
  [/^plusIsSpace: boolean$/, () => true],
];

const load = (file: string): Promise<Record<string, (...values: unknown[]) => unknown>> =>
  import(pathToFileURL(join(source, file)).href) as never;

const plain: Headers = [['content-type', 'application/json']];

const kinds = ['json', 'json_lines', 'form', 'markup', 'csv', 'yaml', 'graphql', 'text', 'plain', 'undeclared'];

const boundary = 'b';

const multipartOf = (text: string): Buffer =>
  Buffer.from(`--${boundary}\r\n\r\n${text.replaceAll('\n', `\r\n--${boundary}\r\n\r\n`)}\r\n--${boundary}--`);

/** Calls a function that takes a body and its kind, for each kind. */
const forKinds = (call: (kind: { kind: string; charset: 'utf8' }) => unknown) =>
  kinds.map((kind) => () => call({ kind, charset: 'utf8' }));

/** Characters of which one is sent in single bytes: each chunk costs as much as some characters do. */
const CHARACTERS_OF_CHUNK = 32;

const chunksOf = (text: string): Buffer[] => {
  const bytes = Buffer.from(text.slice(0, text.length / CHARACTERS_OF_CHUNK));
  return Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
};

/** Single bytes, as a client may send them. */
async function* singleBytes(text: string): AsyncGenerator<Buffer> {
  yield* chunksOf(text);
}

const readAll = async (body: AsyncIterable<unknown>): Promise<void> => {
  for await (const piece of body) void piece;
};

const accounts = createAccounts();

const answerOf = (text: string) => ({
  account: 'tenant',
  status: 200,
  statusText: '',
  headers: plain,
  bodyBytes: undefined,
  body: Object.assign(singleBytes(text), { destroy: () => {} }),
});

const echoSearch = () => {
  const texts = runAtOnce(readEchoTexts([['id', { number: '4242424242424242', a: '{{{{{{{{{', cvc: '123' }]]));
  return runAtOnce(createEchoSearch(texts)) as EchoSearch;
};

const scope = { data: { a: 'v' } };

const requestOf = ({ text, headers }: Input) => ({
  path: `/${text}`,
  query: text,
  headers,
  body: { kind: { kind: 'json', charset: 'utf8' }, bytes: Buffer.from(text) },
});

const callOf = ({ text, value }: Input) => ({
  method: 'POST',
  path: '/',
  query: { a: text.slice(0, text.length / CHARACTERS_OF_CHUNK).split('') },
  headers: { a: 'a' },
  body: value,
});

type Run = (...values: any[]) => any;
type Work = (given: Input) => unknown;

/**
 * The work of functions whose arguments do not follow from their declarations. A list of functions is called one by one; a promise
 * is awaited, and a generator is run to its end.
 */
const works: Record<string, (run: Run) => Work> = {
  'modules/code/args inputOf':
    (run) =>
    ({ value }) =>
      run({ args: value, configuration: {}, has_svc: false }),
  'modules/code/args inputInTurns':
    (run) =>
    ({ value }) =>
      run({ accounts }, 'tenant', { args: value, configuration: {}, has_svc: false }, true),
  'modules/code/contract castArgs':
    (run) =>
    ({ value }) =>
      run(value, [{ name: 'a.b', type: 'string' }]),
  'modules/code/service-client checkWeight':
    (run) =>
    ({ value }) =>
      run({ config: { bodyBytesMax: Infinity } }, value, 'What is sent'),
  'modules/proxy/bodies/expressions prepareBody':
    (run) =>
    ({ text }) => [
      ...forKinds((kind) => run(kind, Buffer.from(text), ['body'], createReferences())),
      () => run({ kind: 'multipart', boundary }, multipartOf(text), ['body'], createReferences()),
    ],
  'modules/proxy/bodies/body-kind decodedHeaders':
    (run) =>
    ({ headers }) =>
      run(headers, true),
  'modules/proxy/bodies/take-body decodeRequest':
    (run) =>
    ({ headers, text }) =>
      run(
        { accounts },
        'tenant',
        { headers, kind: { kind: 'text', charset: 'utf8', utf16: 'utf-16le' }, whole: Buffer.from(text, 'utf16le') },
        { bytesMax: 1e7, isTransformed: true },
        [],
      ),
  'modules/proxy/bodies/take-body sentOf':
    (run) =>
    ({ headers }) =>
      run(
        { bytes: Buffer.alloc(1), wasUtf16: true },
        { hasValues: true, isRead: true },
        { headers, body: undefined },
        undefined,
      ),
  'modules/proxy/bodies/expression-start mayContain':
    (run) =>
    ({ text }) =>
      run({ parts: [Buffer.from('{{')], pattern: /\{\{ none/ }, Buffer.from(text)),
  'modules/proxy/bodies/expressions findExpressions': (run) => (given) => run(requestOf(given)),
  'modules/proxy/bodies/expressions findInSlices': (run) => (given) =>
    run(requestOf(given), createCodedTexts(new Map())),
  'modules/proxy/bodies/expressions findNothing': (run) => (given) =>
    run(requestOf(given), createCodedTexts(new Map())).expand(new Map()),
  'modules/proxy/bodies/multipart createMultipartReader':
    (run) =>
    ({ text }) => {
      const ignore = (): void => {};
      const reader = run(boundary, { onFrame: ignore, onPart: ignore, onContent: ignore, onMalformed: ignore });
      const bytes = multipartOf(text.slice(0, text.length / CHARACTERS_OF_CHUNK));
      for (const chunk of chunksOf(bytes.toString())) reader.push(chunk);
      reader.end();
    },
  'modules/proxy/bodies/percent splitPercent':
    (run) =>
    ({ text }) =>
      run(text, { place: 'query', plusIsSpace: true, encode: (value: string) => value }, createReferences()),
  'modules/proxy/bodies/place-rules splitHeaderValue':
    (run) =>
    ({ text }) =>
      run(['x-header', text], 'headers', createReferences(), (value: string) => value),
  'modules/proxy/bodies/place-rules splitRuled':
    (run) =>
    ({ text }) =>
      ['csv', 'yaml', 'graphql'].map(
        (kind) => () => run(kind, text, 'body', createReferences(), (value: string) => value),
      ),
  'modules/proxy/bodies/take-body begun':
    (run) =>
    async ({ text }) =>
      readAll(await run(singleBytes(text))),
  'modules/proxy/bodies/take-body takeBody':
    (run) =>
    ({ text }) => {
      const kind = { kind: 'json', charset: 'utf8' };
      const use = {
        kind,
        declaredKind: kind,
        headers: plain,
        isUnsupportedJson: false,
        isTransformed: true,
        hasMarks: false,
      };
      return run(
        { config: { proxyBodyBytesMax: 1e7 }, accounts },
        'tenant',
        { body: singleBytes(text), bodyBytes: undefined },
        use,
        [],
      );
    },
  'modules/proxy/bodies/text-parts hasSlots':
    (run) =>
    ({ text }) =>
      run(text.split('')),
  'modules/proxy/bodies/text-parts writeParts':
    (run) =>
    ({ text }) =>
      run(text.split(''), expansion()),
  'modules/proxy/bodies/markup-text splitMarkup':
    (run) =>
    ({ text }) =>
      run(text, 'utf8', 'body', createReferences(), true),
  'modules/proxy/bodies/json-text documentChecks':
    (run) =>
    ({ text }) => [
      () => run(text, 'query', 'body', createReferences()),
      () => run(`{"a":"${text}`, undefined, 'body', createReferences()),
    ],
  'modules/proxy/bodies/json-text splitChecked':
    (run) =>
    ({ text }) =>
      run(text, 'body', createReferences(), (value: string) => value, []),
  'modules/proxy/bodies/expression-start mayHoldExpression':
    (run) =>
    ({ text }) => [() => run('unread', Buffer.from(text)), () => run('unreadable', Buffer.from(text))],
  'modules/proxy/bodies/charsets decodeLegacy':
    (run) =>
    ({ text }) =>
      run(Buffer.from(text), 'gbk'),
  'modules/proxy/bodies/charsets readLegacy':
    (run) =>
    ({ text }) =>
      run(Buffer.from(text), 'gbk'),
  'modules/proxy/bodies/charsets encodeLegacy':
    (run) =>
    ({ text }) =>
      run(text, 'gbk'),
  'modules/proxy/bodies/charsets encodeLegacyInSlices':
    (run) =>
    ({ text }) =>
      run(text, 'gbk'),
  'modules/proxy/bodies/charsets encodeHeld':
    (run) =>
    ({ text }) =>
      run(text, 'gbk'),
  'modules/proxy/bodies/charsets escapeJson':
    (run) =>
    ({ text }) =>
      run(text.replaceAll('e', '\u3042')),
  'modules/proxy/bodies/charsets isEncodable':
    (run) =>
    ({ text }) =>
      run(text, 'gbk'),
  'modules/proxy/bodies/text-charset encodeUtf16':
    (run) =>
    ({ text }) =>
      run(text, 'utf-16be'),
  'modules/proxy/bodies/text-charset isInUtf16':
    (run) =>
    ({ text }) =>
      run({ kind: 'undeclared', charset: 'utf8' }, Buffer.from(text, 'utf16le')),
  'modules/proxy/bodies/text-charset readUtf16':
    (run) =>
    ({ text }) =>
      run({ kind: 'text', charset: 'utf8' }, Buffer.from(text, 'utf16le'), 'body'),
  'modules/proxy/bodies/text-charset utf16Of':
    (run) =>
    ({ text }) =>
      run({ kind: 'text', charset: 'utf8' }, Buffer.from(text)),
  'modules/proxy/code-call callAnswer':
    (run) =>
    ({ text }) =>
      run({ accounts }, answerOf(text), { signal: new AbortController().signal, sent: Promise.resolve() }),
  'modules/proxy/held-body takeUpTo':
    (run) =>
    ({ text }) =>
      run(singleBytes(text)[Symbol.asyncIterator](), 256 * 1024, () => undefined),
  'modules/proxy/code-rule settleCodes':
    (run) =>
    ({ text }) =>
      run(
        { accounts },
        {
          claim: { isHeld: true, settle: () => Promise.resolve() },
          rule: { until: 'answered', keep: { when: { path: '$.a', equals: ['b'] } } },
        },
        answerOf(text),
        { account: 'tenant', reservations: [] },
      ),
  'modules/proxy/code-call parseProxyCall': (run) => (given) => run(callOf(given)),
  'modules/proxy/bodies/text-charset charsetOfText':
    (run) =>
    ({ text }) =>
      run({ kind: 'markup', charset: 'utf8' }, Buffer.from(`<?xml version="1.0" ${text}`)),
  'modules/proxy/message charsetOf':
    (run) =>
    ({ text }) =>
      run({ headers: [['content-type', 'text/xml']], body: Buffer.from(`<?xml version="1.0" ${text}`) }),
  'modules/proxy/message textOf':
    (run) =>
    ({ text }) =>
      run({ headers: plain, body: Buffer.from(text) }),
  'modules/proxy/message refuseStaleDigests':
    (run) =>
    ({ headers }) =>
      run(headers, headers),
  'modules/proxy/outgoing findBase': (run) => {
    const ctx = { egress: { check: (url: string) => new URL(url) }, config: { headerPrefixes: [] } };
    return ({ headers, text }) => run(ctx, [...headers, ['svc-proxy-url', `https://x.test/?${text}`]], undefined, []);
  },
  'modules/proxy/outgoing proxyKeysOf':
    (run) =>
    ({ headers }) =>
      run(headers, { proxyKeys: [] }),
  'modules/proxy/target baseOf':
    (run) =>
    ({ text }) =>
      run(`https://example.com?${text}`, new URL(`https://example.com?${text}`)),
  'modules/proxy/target destinationOf':
    (run) =>
    ({ text }) =>
      run({ url: new URL('https://example.com/base'), search: '' }, { path: `/${text}`, query: text, isBare: false }),
  'modules/proxy/target refuseLongUrl':
    (run) =>
    ({ text }) =>
      run({ url: new URL(`https://example.com?${text}`), target: `/?${text}` }, { path: '', query: text }),
  'modules/proxy/watch watchBody':
    (run) =>
    ({ text }) => [
      ...forKinds((kind) => readAll(run(kind, singleBytes(text)))),
      () => readAll(run({ kind: 'multipart', boundary }, singleBytes(text))),
    ],
  'modules/tokens/echo/automaton createAutomaton':
    (run) =>
    ({ text }) =>
      run([Buffer.from(text), Buffer.from(text.slice(1)), Buffer.from(text.slice(0, 9).repeat(9))]),
  'modules/tokens/echo/echo-guard searchText':
    (run) =>
    ({ text }) => [
      () => run(echoSearch(), Buffer.from(text), { place: 'json' }),
      () => {
        const scanner = createEchoScanner(echoSearch(), 'text');
        for (const chunk of chunksOf(text)) runAtOnce(scanner.push(chunk));
        scanner.end();
      },
    ],
  'modules/tokens/echo/echo-patterns readEchoTexts':
    (run) =>
    ({ value }) =>
      run([['id', value]]),
  'modules/tokens/echo/echo-patterns patternsOf':
    (run) =>
    ({ text }) =>
      run('id', text),
  'modules/tokens/echo/echo-candidates glanceAtEscape':
    (run) =>
    ({ text }) =>
      run(Buffer.from(text), 0, text.length),
  'modules/tokens/echo/echo-candidates addPattern':
    (run) =>
    ({ text }) =>
      run(createCandidates(true), Buffer.from(text)),
  'modules/tokens/echo/echo-candidates findCandidate':
    (run) =>
    ({ text }) =>
      run(echoSearch().candidates, Buffer.from(text), 0, text.length),
  'modules/tokens/echo/echo-candidates mayBeginAt':
    (run) =>
    ({ text }) =>
      run(echoSearch().candidates, Buffer.from(text), 1),
  'modules/tokens/echo/escapes readEscape':
    (run) =>
    ({ text }) =>
      run(Buffer.from(text), text.length, true),
  'modules/proxy/message withoutByteHeaders':
    (run) =>
    ({ headers }) =>
      run(headers),
  'platform/egress/body decodeStream':
    (run) =>
    ({ text }) =>
      readAll(run([['content-encoding', 'gzip']], singleBytes(gzipSync(text).toString('latin1')))),
  'modules/tokens/expressions/expressions mapStrings':
    (run) =>
    ({ value }) =>
      run(value, 64, (text: string) => text),
  'modules/tokens/expressions/expansion expandInSlices':
    (run) =>
    ({ value }) =>
      run(value, expansion()),
  'modules/tokens/expressions/expressions evaluateCreateTime':
    (run) =>
    ({ text }) =>
      run(templateOf(text), scope, environment),
  'modules/tokens/expressions/expressions evaluateShape':
    (run) =>
    ({ value }) =>
      run(value, scope, environment),
  'modules/tokens/expressions/expressions scanExpression':
    (run) =>
    ({ text }) =>
      run(text, 'index'),
  'modules/tokens/expressions/filters applyFilters':
    (run) =>
    ({ value }) =>
      ['json', 'upcase', 'quote_json', 'split'].map(
        (name) => () => run(value, [{ name, args: filterArguments[name] ?? [] }], environment, createMeter()),
      ),
  'modules/tokens/expressions/filters checkFilter':
    (run) =>
    ({ text }) =>
      run({ name: 'append', args: text.split('') }),
  'modules/tokens/expressions/json-path queryJson':
    (run) =>
    ({ text, value }) =>
      ['$..a', '$..*', '$[*]', text].map((path) => () => run(value, path, createMeter())),
  'modules/tokens/expressions/meter jsonSize':
    (run) =>
    ({ value }) =>
      run(value, Infinity),
  'modules/tokens/expressions/template findEnd':
    (run) =>
    ({ text }) =>
      run(text, 2, { steps: 0 }),
  'modules/tokens/expressions/text-filters lastCharacters':
    (run) =>
    ({ text }) =>
      run(text, 4),
  'platform/egress/address isReachable':
    (run) =>
    ({ text }) =>
      run(text, true),
  'platform/egress/body decodeBody':
    (run) =>
    ({ text }) =>
      run([['content-encoding', 'gzip']], gzipSync(text), 1e7),
  'platform/egress/body readBody':
    (run) =>
    ({ text }) =>
      run({ body: singleBytes(text), bodyBytes: undefined }, 1e7, async () => {}),
  'platform/egress/fetch takeWhole':
    (run) =>
    ({ text }) =>
      run({ accounts }, { account: 'tenant', bodyBytesMax: 1e6 }, answerOf(text)),
  'platform/egress/response-heads mendHead':
    (run) =>
    ({ text }) =>
      run(Buffer.from(`HTTP/1.1 200 OK\r\nx: ${text}\r\ncontent-length: ${text}\r\n\r\n`)),
  'platform/egress/headers refuseLoop':
    (run) =>
    ({ headers }) =>
      run({ loop_id: 'id' }, headers),
  'platform/http/proxy-answer-headers proxyAnswerHeaders':
    (run) =>
    ({ headers }) =>
      run({ origin: 'https://example.com' }, headers),
  'platform/http/session-cookie withoutSessionCookie':
    (run) =>
    ({ headers }) =>
      run({ config: { publicUrl: 'https://example.com' } }, headers),
  'platform/json/json valueAt':
    (run) =>
    ({ value }) =>
      run(value, ['a', 0, 'a', 0]),
  'platform/json/merge-patch mergePatch':
    (run) =>
    ({ value }) => [() => run(value, value), () => run({}, value), () => run(value, {})],
  'platform/sandbox/host/heads faultOfBody':
    (run) =>
    ({ text, value }) => [
      () => run({ value }),
      () => run({ value: { code: 'RESPONSE', response: { status: 200, headers: { a: text }, body: value } } }),
    ],
  'platform/sandbox/host/heads maskLines':
    (run) =>
    ({ text }) =>
      run(text.split('\n').map((line) => ({ level: 'log', text: line }))),
  'platform/sandbox/host/heads parseHead':
    (run) =>
    ({ text }) => [() => run(callHead, text), () => run(doneHead, text)],
  'platform/sandbox/protocol/frames encodeFrame':
    (run) =>
    ({ text, value }) =>
      run(frameKinds.CALL, 1, { value }, text),
  'platform/sandbox/host/paced-reads readPaced':
    (run) =>
    ({ text }) => {
      const socket = new Duplex({ read: () => {} });
      const reader = createFrameReader(
        () => {},
        () => {},
      );
      run(socket, reader, unpaid);
      const frame = encodeFrame(frameKinds.CALL, 1, {}, text.slice(0, text.length / CHARACTERS_OF_CHUNK));
      for (let at = 0; at < frame.length; at += 1) socket.emit('data', frame.subarray(at, at + 1));
    },
};

/** Work of objects that take input in their methods. */
const methods: Record<string, Work> = {
  'opened texts that are added': ({ value, text }) => [
    () => createOpenedTexts().add(value),
    () => createOpenedTexts().add(text),
  ],
  'opened texts that are compared': ({ value, text }) => {
    const opened = createOpenedTexts();
    const begin = opened.add([
      '{{ x',
      'y }}',
      '{',
      ...list(Math.min(900, text.length / 20), (index) => `{{ x${index} }}`),
    ]);
    while (!begin.next().done);
    return [() => opened.refuseIn(value), () => opened.refuseIn(text)];
  },
  'sets of prefixes': ({ text }) => {
    const set = createPrefixSet();
    for (const piece of text.match(/.{1,16}/gs) ?? []) if (!set.hasPrefixOf(piece)) set.add(piece);
  },
  'coded texts': ({ text }) => createCodedTexts(new Map()).scan(text),
  'walks with a path of one value': ({ value }) => {
    const walk = walkJson(value);
    while (walk.next());
    walk.path();
  },
};

/** Functions that are not called, and why they need not be. */
const beyond: Record<string, string> = {
  'modules/proxy/bodies/place-rules checkCuts': 'is called by splitRuled and documentChecks, which are called here',
  'modules/proxy/bodies/text-charset isUtf32': 'looks at four bytes',
  'modules/proxy/bodies/text-charset mayBeWide': 'looks at two bytes',
  'modules/code/args openArgs': 'collects, expands and checks in functions that are called here',
  'modules/code/formulas isCutShort': 'looks at the size of a column',
  'modules/code/service-client answerService': 'compares opened texts, and calls the operations of the API',
  'modules/proxy/held-body joined': 'passes pieces on as they are',
  'modules/proxy/proxy-finder openRoute': 'opens what the vault has written',
  'modules/proxy/rows findProxyBeforeCaller': 'gets a digest',
  'modules/proxy/rows insertProxy': 'gets a sealed route and a digest',
  'modules/proxy/rows replaceProxyKey': 'gets digests',
  'modules/proxy/rows updateProxy': 'gets a sealed route',
  'modules/proxy/code-call transformAnswer': 'reads, compares and writes in functions that are called here',
  'modules/proxy/transform transform': 'reads, compares and writes in functions that are called here',
  'platform/sandbox/protocol/frames createFrameReader': 'reads in the work of readPaced',
  'platform/egress/fetch egressFetch': 'sends headers and bodies that functions called here have checked',
  'platform/http/assets asset': 'gets files of the server',
  'platform/http/assets sendPacked': 'reads one header, and sends a text that the server makes',
  'platform/http/qr-code qrCode': 'draws what the server has made',
  'platform/http/sentences toFieldError': 'looks at one issue, and at one value by the path of a schema',
  'platform/json/json-parser takeText': 'looks for a word of the grammar',
};

const workOf = async (found: Found): Promise<Work | undefined> => {
  const { id, file, name, parameters } = found;
  const run = (await load(file))[name] as (...values: unknown[]) => unknown;
  const entered = works[id];
  if (entered) return entered(run);
  const needed = parameters.filter((parameter) => !/^\w+\?:|^[^(]*=(?!>)/.test(parameter));
  const makers = needed.map((parameter) => argumentsOf.find(([declaration]) => declaration.test(parameter))?.[1]);
  return makers.includes(undefined) ? undefined : (given) => run(...makers.map((make) => make?.(given, found)));
};

// --- Measurement ---

/** Characters of the smaller input. */
const CHARACTERS = 6_000;

/** Linear work takes twice as long for twice the input; beside it, caches and collections vary. */
const GROWTH_MAX = 2.6;

/** Less is not measured: a square would take more than a millisecond. */
const MEASURED_MS_LEAST = 0.5;

/** Work that is linear with a large factor is refused too: a body of a megabyte takes at most 2 s, in slices. */
const MICROSECONDS_PER_CHARACTER_MAX = 2;

/** Only growth that seems too much is measured so often: on a busy machine most runs are interrupted. */
const REPETITIONS_MAX = 40;

/** One run of the smaller input that a collection interrupts would hide any growth. */
const REPETITIONS_LEAST = 3;

/** Runs that take so long are interrupted in any case, and are too many at a dozen. */
const LONG_MS = 50;
const REPETITIONS_OF_LONG = 3;

const isSlices = (made: unknown): made is Slices<unknown> =>
  typeof made === 'object' && made !== null && 'next' in made && Symbol.iterator in made;

/** Errors that mean that a function was called in a wrong way. Others are answers to the input. */
const isMistake = (error: unknown): boolean =>
  (error instanceof TypeError && !('code' in error) && !/URI|URL/.test(error.message)) ||
  error instanceof ReferenceError;

const attempt = async (work: () => unknown): Promise<unknown> => {
  try {
    const made = work();
    if (isSlices(made)) while (!made.next().done);
    return made instanceof Promise ? await made : made;
  } catch (error) {
    if (isMistake(error)) throw error;
    return undefined;
  }
};

/** The time of one run, or of the longest of a list. Of several, the least is the one that no other process interrupted. */
const timeOf = async (work: Work, given: Input): Promise<number> => {
  let longest = 0;
  const run = async (each: () => unknown): Promise<unknown> => {
    const beganMs = performance.now();
    const made = await attempt(each);
    longest = Math.max(longest, performance.now() - beganMs);
    return made;
  };
  const made = await run(() => work(given));
  if (Array.isArray(made) && typeof made[0] === 'function')
    for (const each of made as (() => unknown)[]) await run(each);
  return longest;
};

type Growth = { growth: number; microseconds: number };

const isTooMuch = ({ growth, microseconds }: Growth): boolean =>
  growth > GROWTH_MAX || microseconds > MICROSECONDS_PER_CHARACTER_MAX;

/** How many times longer it takes for twice the input, 1 where that is too short to compare; and how long for a character. */
const growthOf = async (work: Work, shape: string, characters: number): Promise<Growth> => {
  const [one, two] = [inputOf(shape, characters), inputOf(shape, 2 * characters)];
  let [least, leastOfTwo] = [Infinity, Infinity];
  const found = (): Growth => ({ growth: leastOfTwo / least, microseconds: (leastOfTwo * 1000) / (2 * characters) });
  for (let left = REPETITIONS_MAX; left > 0; left -= 1) {
    leastOfTwo = Math.min(leastOfTwo, await timeOf(work, two));
    if (leastOfTwo < MEASURED_MS_LEAST) return { ...found(), growth: 1 };
    least = Math.min(least, await timeOf(work, one));
    // The first calls run in the interpreter.
    if (left <= REPETITIONS_MAX - REPETITIONS_LEAST + 1 && !isTooMuch(found())) break;
    if (leastOfTwo > LONG_MS) left = Math.min(left, REPETITIONS_OF_LONG);
  }
  return found();
};

const problemsOf = async (work: Work, of = Object.keys(shapes)): Promise<string[]> => {
  const problems: string[] = [];
  for (const shape of of) {
    if (!isTooMuch(await growthOf(work, shape, CHARACTERS))) continue;
    // Looked at again with larger input: data structures may change at one size, and other processes may take the processor.
    const again = await growthOf(work, shape, 2 * CHARACTERS);
    if (isTooMuch(again))
      problems.push(`${shape}: ${again.growth.toFixed(1)} times, ${again.microseconds.toFixed(1)} µs for a character`);
  }
  return problems;
};

test('every function that sees input is called, or says why not', async () => {
  expect(functions.length).toBeGreaterThan(100);
  const missing: string[] = [];
  for (const found of functions) if (!(found.id in beyond) && !(await workOf(found))) missing.push(found.id);
  expect(missing, 'enter their arguments in `works`, or a reason in `beyond`').toEqual([]);
  const ids = new Set(functions.map(({ id }) => id));
  expect([...Object.keys(works), ...Object.keys(beyond)].filter((id) => !ids.has(id))).toEqual([]);
});

// Growth of the code is there each time; that of a busy machine is not.
describe('twice the input takes about twice the time', { retry: 2 }, () => {
  test.each(functions.filter(({ id }) => !(id in beyond)).map((found) => [found.id, found] as const))(
    '%s',
    async (_, found) => {
      const work = await workOf(found);
      expect(work && (await problemsOf(work))).toEqual([]);
    },
  );

  test.each(Object.entries(methods))('%s', async (_, work) => {
    expect(await problemsOf(work)).toEqual([]);
  });
});

describe('the measurement', { retry: 2 }, () => {
  test.each<[string, Work]>([
    [
      'a list that is copied for each item',
      ({ text }) =>
        text
          .slice(0, text.length / 4)
          .split('')
          .reduce<string[]>((all, each) => [...all, each], []),
    ],
    [
      'a search from each character',
      ({ text }) => text.split('').filter((_, at) => text.lastIndexOf('\0', text.length - at) > 0),
    ],
    [
      'pieces of 4,000 characters in a set',
      ({ text }) => new Set(text.split('').flatMap((_, at) => [text.slice(at, at + 2000), text.slice(at, at + 4000)])),
    ],
  ])('finds %s', async (_, work) => {
    expect(await problemsOf(work, ['braces'])).not.toEqual([]);
  });
});
