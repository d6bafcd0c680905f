// Reads the rows of an import as a stream: CSV, lines of JSON, or one JSON document. Holds one row at a time.
import { pipeline, Readable } from 'node:stream';
import { type CsvError, parse } from 'csv-parse';
import { StartError } from '../platform/base/errors.ts';
import { type Json } from '../platform/json/json.ts';
import { JsonSyntaxError, parseInSlices } from '../platform/json/json-parser.ts';
import { runAtOnce } from '../platform/json/slices.ts';
import type { Columns, ImportFormat } from './import-formats.ts';
import { UsageError } from './command.ts';

/** A row, or why it is none. `at` is its line in a file of lines or CSV, its place in a JSON document: 1 is the first. */
export type SourceRow = { at: number } & ({ columns: Columns } | { reason: string });

export type Source = {
  /** The columns of a CSV file, in order. */
  header: string[] | undefined;
  rows: AsyncIterable<SourceRow>;
};

/** The default of BODY_BYTES_MAX: what is larger could not have been created by a request. */
const ROW_BYTES_MAX = 1024 * 1024;

const TOO_LARGE = `it has more than ${ROW_BYTES_MAX} bytes`;
const NOT_UTF8 = 'it is not UTF-8';

const isObject = (value: Json): value is Columns =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Parses as strictly as a request. A reason names no value. */
const parseObject = (bytes: Uint8Array): { columns: Columns } | { reason: string } => {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    return { reason: NOT_UTF8 };
  }
  try {
    const { value, findings } = runAtOnce(parseInSlices(text, { stopsAtDepth: true }));
    const [finding] = Object.values(findings);
    if (finding) return { reason: finding.sentence };
    return isObject(value) ? { columns: value } : { reason: 'it is no JSON object' };
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    return { reason: 'it is no JSON' };
  }
};

/** The parts of a stream between line ends; undefined for a line that is too large. */
async function* linesOf(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer | undefined> {
  let parts: Buffer[] = [];
  let size = 0;
  const end = (): Buffer | undefined => {
    const line = size > ROW_BYTES_MAX ? undefined : Buffer.concat(parts);
    parts = [];
    size = 0;
    return line;
  };
  const add = (part: Buffer): void => {
    size += part.length;
    if (size <= ROW_BYTES_MAX) parts.push(part);
    else parts = [];
  };
  for await (const chunk of input) {
    let from = 0;
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      add(chunk.subarray(from, at));
      yield end();
      from = at + 1;
    }
    add(chunk.subarray(from));
  }
  if (size > 0) yield end();
}

/** The first and the last line of our own export, which are no tokens. */
const isFrame = (columns: Columns): boolean => 'manifest' in columns || 'end' in columns;

async function* jsonLines(input: AsyncIterable<Buffer>, hasFrame: boolean): AsyncGenerator<SourceRow> {
  let at = 0;
  for await (const line of linesOf(input)) {
    at += 1;
    if (line === undefined) yield { at, reason: TOO_LARGE };
    else if (line.some((byte) => byte > 32)) {
      const row = parseObject(line);
      if (!(hasFrame && 'columns' in row && isFrame(row.columns))) yield { at, ...row };
    }
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** The objects of `[...]` or of arrays of `{"name":[...]}`, as bytes; undefined for one that is too large or not finished. */
async function* elementsOf(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer | undefined> {
  /** How many brackets are open. A bracket without an end costs nothing more, however many a file has. */
  let level = 0;
  /** The two outermost of them. */
  let outer = '';
  let isText = false;
  let isEscaped = false;
  let depth = -1;
  let parts: Buffer[] = [];
  let size = 0;
  const add = (part: Buffer): void => {
    size += part.length;
    if (size <= ROW_BYTES_MAX) parts.push(part);
    else parts = [];
  };
  for await (const chunk of input) {
    let from = 0;
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at] as number;
      if (isText) {
        if (isEscaped) isEscaped = false;
        else if (byte === BACKSLASH) isEscaped = true;
        else if (byte === QUOTE) isText = false;
      } else if (byte === QUOTE) isText = true;
      else if (byte === 0x7b || byte === 0x5b) {
        const isElement = (level === 1 && outer === '[') || (level === 2 && outer === '{[');
        if (depth === -1 && byte === 0x7b && isElement) {
          depth = level;
          from = at;
        }
        if (level < 2) outer = outer.slice(0, level) + (byte === 0x7b ? '{' : '[');
        level += 1;
      } else if (byte === 0x7d || byte === 0x5d) {
        level = Math.max(0, level - 1);
        outer = outer.slice(0, level);
        if (level !== depth) continue;
        add(chunk.subarray(from, at + 1));
        yield size > ROW_BYTES_MAX ? undefined : Buffer.concat(parts);
        depth = -1;
        parts = [];
        size = 0;
      }
    }
    if (depth !== -1) add(chunk.subarray(from));
  }
  if (level > 0) yield undefined;
}

/** Rows of a document: each object, or each of its `cards` with the object around it. */
async function* documentRows(input: AsyncIterable<Buffer>): AsyncGenerator<SourceRow> {
  let at = 0;
  for await (const bytes of elementsOf(input)) {
    const row = bytes === undefined ? { reason: `${TOO_LARGE}, or the file ends in it` } : parseObject(bytes);
    const { cards, ...rest } = 'columns' in row ? row.columns : {};
    if (!Array.isArray(cards)) yield { at: (at += 1), ...row };
    else for (const card of cards) yield { at: (at += 1), columns: { ...rest, card } };
  }
}

type CsvRecord = { record: string[]; info: { lines: number } };

/** @throws StartError for broken quotes: from there on, no line can be told for certain. */
async function* csvRecords(input: Readable): AsyncGenerator<{ at: number; values: string[] }> {
  const parser = parse({
    bom: true,
    info: true,
    relax_column_count: true,
    skip_empty_lines: true,
    // Without this, the stream drops the records before the error.
    skip_records_with_error: true,
    max_record_size: ROW_BYTES_MAX,
  });
  let broken: { line: number; code: string } | undefined;
  parser.on('skip', ({ code, ...error }: CsvError) => (broken ??= { line: Number(error['lines']), code }));
  // The error of the input reaches the loop as the parser's own.
  pipeline(input, parser, () => undefined);
  for await (const { record, info } of parser as AsyncIterable<CsvRecord>) {
    if (broken && info.lines >= broken.line) break;
    yield { at: info.lines, values: record };
  }
  if (broken)
    throw new StartError(
      `Line ${broken.line} is no CSV (${broken.code}). The rows before it are imported. Correct it, and import with another --result: stored rows are not written again.`,
    );
}

const csvSource = async (input: Readable): Promise<Source> => {
  const records = csvRecords(input);
  const { value: first } = await records.next();
  if (!first) throw new UsageError('The file must begin with a line of column names.');
  const header: string[] = first.values;
  const doubled = header.find((name, index) => header.indexOf(name) !== index);
  if (doubled !== undefined) throw new UsageError(`The file has the column ${doubled} twice.`);
  const rows = async function* (): AsyncGenerator<SourceRow> {
    for await (const each of records) {
      if (each.values.length !== header.length)
        yield { at: each.at, reason: `it has ${each.values.length} columns, the header has ${header.length}` };
      else if (each.values.some((value) => value.includes('\uFFFD'))) yield { at: each.at, reason: NOT_UTF8 };
      else
        yield {
          at: each.at,
          columns: Object.fromEntries(header.map((name, index) => [name, each.values[index] ?? ''])),
        };
    }
  };
  return { header, rows: rows() };
};

/** A stream again, whose first bytes were read. */
const peek = async (input: Readable): Promise<{ first: string; whole: Readable }> => {
  const chunks = input[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const start = await chunks.next();
  const first = start.done
    ? ''
    : start.value
        .toString('latin1')
        .replace(/^\u00EF\u00BB\u00BF/, '')
        .trimStart();
  const all = async function* () {
    if (!start.done) yield start.value;
    for (let next = await chunks.next(); !next.done; next = await chunks.next()) yield next.value;
  };
  return { first, whole: Readable.from(all(), { objectMode: false }) };
};

/** @throws UsageError for a CSV file without a header. */
export const openSource = async (format: ImportFormat, input: Readable): Promise<Source> => {
  if (format.layout === 'csv') return csvSource(input);
  if (format.layout === 'lines') return { header: undefined, rows: jsonLines(input, format.hasFrame ?? false) };
  const { first, whole } = await peek(input);
  return /^[[{]/.test(first) ? { header: undefined, rows: documentRows(whole) } : csvSource(whole);
};
