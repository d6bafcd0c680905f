// Finds opened values in a stream and writes masks in their place. Passes on at once what cannot be the beginning of a match.
import type { Slices } from '../../../platform/json/slices.ts';
import { type Automaton, createAutomaton, ROOT } from './automaton.ts';
import {
  addPattern,
  type Candidates,
  CLOSE_BYTES,
  createCandidates,
  findCandidate,
  mayBeginAt,
} from './echo-candidates.ts';
import { type EchoTexts, type Pattern, patternsOf } from './echo-patterns.ts';
import { createEchoOutput, type EchoOutput, type EchoPlace } from './echo-output.ts';
import { ESCAPE_BYTES_MAX, escapeKinds, escapeStarts, readEscape, utf8Of } from './escapes.ts';
import { type CodeFinder, createCodeFinder } from './security-codes.ts';

// One reading of a stream: its bytes with one kind of escapes decoded. It follows the automaton on its own only where an escape stands
// in what may be a match; elsewhere all readings are the same, and the scanner follows one.

/** Kinds of escapes that are decoded, once or twice. */
type Reading = { kinds: number; isTwice: boolean };

/** State of the automaton in the bytes as they came. */
type RawState = { state: number; codes: CodeFinder | undefined };

type EchoDecoder = {
  /** Kinds of escapes that it decodes. */
  readonly kinds: number;
  readonly isAwake: boolean;
  /** Goes on from the bytes as they came, of which `at` is the next. */
  wake(raw: RawState, at: number): void;
  step(byte: number, at: number): void;
  /** Sleeps if it would find nothing that the bytes before `at`, as they came, do not. @returns whether it does. */
  sleepIfSame(at: number): boolean;
  /** The stream has ended. */
  end(): void;
  /** Start of a match that may have begun; Infinity if none has. */
  start(): number;
};

/** Automaton and codes that a request looks for. */
type DecoderOptions = {
  automaton: Automaton;
  createCodeFinder: (() => CodeFinder) | undefined;
  /** @param start of the match in the stream. @param end behind it. @param pattern its index. */
  found(start: number, end: number, pattern: number): void;
};

/** Takes a decoded byte with its place in the stream. */
type Take = (byte: number, start: number, end: number) => void;

/** Zero bytes that stand for nothing between two characters: UTF-32 has three. Behind more of them, no value goes on. */
const ZEROS_MAX = 3;

/** Decodes one level of escapes. Bytes of an escape that is no escape are literal. */
const createEscapeReader = (kinds: number, take: Take, decoded: () => void) => {
  const bytes = new Uint8Array(ESCAPE_BYTES_MAX);
  const starts = new Float64Array(ESCAPE_BYTES_MAX);
  const ends = new Float64Array(ESCAPE_BYTES_MAX);
  let length = 0;
  let zeros = 0;

  const pass: Take = (byte, start, end) => {
    zeros = 0;
    take(byte, start, end);
  };

  const passZero = (start: number, end: number): void => {
    zeros += 1;
    if (zeros > ZEROS_MAX) take(0, start, end);
  };

  const copyFrom = (used: number) =>
    Array.from({ length: length - used }, (_, index) => {
      const at = used + index;
      return [bytes[at] as number, starts[at] as number, ends[at] as number] as const;
    });

  const settle = (isEnd: boolean): void => {
    const read = readEscape(bytes, length, isEnd);
    if (read === 'more' && !isEnd) return;
    const isRead = typeof read === 'object';
    const used = isRead ? read.used : 1;
    const again = length === used ? undefined : copyFrom(used);
    const start = starts[0] as number;
    const end = ends[used - 1] as number;
    length = 0;
    if (!isRead) pass(bytes[0] as number, start, end);
    else if (read.point < 0) passZero(start, end);
    else if (read.isByte) pass(read.point, start, end);
    else for (const byte of utf8Of(read.point)) pass(byte, start, end);
    if (isRead) decoded();
    if (again) for (const each of again) step(...each);
    if (isEnd && length > 0) settle(true);
  };

  const step: Take = (byte, start, end) => {
    if (length === 0 && ((escapeStarts[byte] as number) & kinds) === 0) return pass(byte, start, end);
    bytes[length] = byte;
    starts[length] = start;
    ends[length] = end;
    length += 1;
    settle(false);
  };

  return {
    step,
    /** Goes on elsewhere in the stream. */
    wake: (): void => {
      zeros = 0;
    },
    end: (): void => {
      if (length > 0) settle(true);
    },
    /** Start of the escape that has begun; Infinity if none has. */
    start: (): number => (length === 0 ? Infinity : (starts[0] as number)),
  };
};

/**
 * @param isTwice whether what was decoded is decoded again: JSON in a text of JSON, a URL in a URL.
 * @param lengths of the patterns.
 */
const createEchoDecoder = (
  { kinds, isTwice }: Reading,
  lengths: readonly number[],
  { automaton, createCodeFinder, found }: DecoderOptions,
): EchoDecoder => {
  const { step: next, depths, ends, depthMax } = automaton;
  const size = 2 ** Math.ceil(Math.log2(depthMax + 1));
  /** Starts of the last units, a ring. Made when it is needed. */
  let starts: Float64Array | undefined;
  let codes: CodeFinder | undefined;
  let units = 0;
  /** Units before the end of the last one that was an escape. */
  let decodedUnits = 0;
  let state = ROOT;
  let isAwake = false;

  const startOf = (back: number): number => (starts as Float64Array)[(units - back) & (size - 1)] as number;

  const take: Take = (byte, start, end) => {
    (starts as Float64Array)[units & (size - 1)] = start;
    units += 1;
    state = next(state, byte);
    const pattern = ends[state] as number;
    if (pattern !== -1) found(startOf(lengths[pattern] as number), end, pattern);
    codes?.step(byte, start, end);
  };
  const noteDecoded = (): void => {
    decodedUnits = units;
  };
  const second = isTwice ? createEscapeReader(kinds, take, noteDecoded) : undefined;
  const first = createEscapeReader(kinds, second?.step ?? take, noteDecoded);
  const pendingStart = (): number => Math.min(first.start(), second?.start() ?? Infinity);

  return {
    kinds,
    get isAwake() {
      return isAwake;
    },
    wake: (raw, at) => {
      isAwake = true;
      first.wake();
      second?.wake();
      starts ??= new Float64Array(size);
      state = raw.state;
      for (let back = depths[state] as number; back > 0; back -= 1) {
        starts[units & (size - 1)] = at - back;
        units += 1;
      }
      if (!raw.codes) return;
      codes ??= createCodeFinder?.();
      codes?.copyFrom(raw.codes);
    },
    step: (byte, at) => first.step(byte, at, at + 1),
    sleepIfSame: (at) => {
      const depth = depths[state] as number;
      const isAsItCame = depth === 0 || (units - depth >= decodedUnits && startOf(depth) === at - depth);
      const isSame = pendingStart() === Infinity && isAsItCame && codes?.isIdle !== false;
      if (isSame) isAwake = false;
      return isSame;
    },
    end: () => {
      first.end();
      second?.end();
      codes?.end();
    },
    start: () => {
      const depth = depths[state] as number;
      const partial = depth === 0 ? Infinity : startOf(depth);
      return Math.min(partial, pendingStart(), codes?.start ?? Infinity);
    },
  };
};

/** Bytes that are searched between two pauses: at most a millisecond. */
const SLICE_BYTES = 16_384;

/** What a request looks for in the answer to it. */
export type EchoSearch = {
  readonly automaton: Automaton;
  readonly patterns: readonly Pattern[];
  readonly lengths: readonly number[];
  readonly candidates: Candidates;
  readonly codes: ReadonlyMap<string, string>;
};

/** Undefined where nothing was opened that is looked for. */
export function* createEchoSearch({ texts, codes }: EchoTexts): Slices<EchoSearch | undefined> {
  if (texts.size === 0 && codes.size === 0) return undefined;
  const patterns: Pattern[] = [];
  for (const [text, id] of texts) {
    patterns.push(...patternsOf(id, text));
    yield;
  }
  const candidates = createCandidates(codes.size > 0);
  for (const { bytes } of patterns) {
    addPattern(candidates, bytes);
    yield;
  }
  const automaton = yield* createAutomaton(patterns.map(({ bytes }) => bytes));
  return { automaton, patterns, lengths: patterns.map(({ bytes }) => bytes.length), candidates, codes };
}

type EchoScanner = {
  /** Searches a chunk. @returns what may pass on, masked. */
  push(chunk: Uint8Array): Slices<Uint8Array[]>;
  /** The stream has ended. @returns the rest. */
  end(): Uint8Array[];
  /** Values found so far, also those that were not passed on yet. */
  readonly echoes: number;
  /** Bytes that are kept back: they may be the beginning of a value. */
  readonly held: number;
};

const anyEscape = escapeKinds.json | escapeKinds.html | escapeKinds.percent | escapeKinds.plus;

/** The readings of a stream, besides its bytes as they came. */
const readings: readonly Reading[] = [
  { kinds: escapeKinds.json, isTwice: false },
  { kinds: escapeKinds.html, isTwice: false },
  { kinds: escapeKinds.percent, isTwice: false },
  { kinds: escapeKinds.percent | escapeKinds.plus, isTwice: false },
  { kinds: escapeKinds.nul, isTwice: false },
  { kinds: escapeKinds.json, isTwice: true },
  { kinds: anyEscape, isTwice: false },
  // Also of UTF-16: escapes whose characters have zeros between them.
  { kinds: anyEscape | escapeKinds.nul, isTwice: true },
];

type Scan = {
  search: EchoSearch;
  output: EchoOutput;
  /** The bytes as they came. */
  raw: RawState;
  /** Made when they are needed: most streams have no escape in what may be a match. */
  decoders: EchoDecoder[];
  makeDecoders(): EchoDecoder[];
  awake: number;
  /** The kinds of escapes of the decoder that steps; 0 for the bytes as they came. */
  reading: number;
  /** Bytes of the stream before the chunk. */
  base: number;
};

const createScan = (search: EchoSearch, place: EchoPlace, start: number): Scan => {
  const { automaton, patterns, lengths, codes } = search;
  const output = createEchoOutput(place, start);
  const found = (from: number, to: number, pattern: number): void =>
    output.mask(from, to, scan.reading, patterns[pattern] as Pattern);
  const foundCode = (from: number, to: number, id: string): void =>
    output.mask(from, to, scan.reading, { bytes: new Uint8Array(), id, spell: (mask) => mask });
  const newCodeFinder = codes.size > 0 ? () => createCodeFinder(codes, foundCode) : undefined;
  const options = { automaton, createCodeFinder: newCodeFinder, found };
  const scan: Scan = {
    search,
    output,
    raw: { state: ROOT, codes: newCodeFinder?.() },
    decoders: [],
    makeDecoders: () => readings.map((each) => createEchoDecoder(each, lengths, options)),
    awake: 0,
    reading: 0,
    base: 0,
  };
  return scan;
};

const stepDecoders = (scan: Scan, bytes: Uint8Array, index: number): void => {
  const byte = bytes[index] as number;
  const at = scan.base + index;
  const kinds = escapeStarts[byte] as number;
  const wakes =
    kinds !== 0 && (scan.raw.codes?.isIdle === false || mayBeginAt(scan.search.candidates, bytes, index)) ? kinds : 0;
  if (wakes === 0 && scan.awake === 0) return;
  if (scan.decoders.length === 0) scan.decoders = scan.makeDecoders();
  for (const decoder of scan.decoders) {
    if (!decoder.isAwake && (decoder.kinds & wakes) !== 0) {
      decoder.wake(scan.raw, at);
      scan.awake += 1;
    }
    if (!decoder.isAwake) continue;
    scan.reading = decoder.kinds;
    decoder.step(byte, at);
    if (decoder.sleepIfSame(at + 1)) scan.awake -= 1;
  }
  scan.reading = 0;
};

/** Takes one byte of a chunk. */
const step = (scan: Scan, bytes: Uint8Array, index: number): void => {
  const { raw, search } = scan;
  const byte = bytes[index] as number;
  if (scan.awake > 0 || escapeStarts[byte] !== 0) stepDecoders(scan, bytes, index);
  raw.state = search.automaton.step(raw.state, byte);
  const pattern = search.automaton.ends[raw.state] as number;
  const end = scan.base + index + 1;
  if (pattern !== -1)
    scan.output.mask(end - (search.lengths[pattern] as number), end, 0, search.patterns[pattern] as Pattern);
  raw.codes?.step(byte, end - 1, end);
};

const isAtRest = ({ raw, awake }: Scan): boolean => raw.state === ROOT && awake === 0 && raw.codes?.isIdle !== false;

const searchBytes = (scan: Scan, bytes: Uint8Array, from: number, to: number): void => {
  let at = from;
  while (at < to) {
    if (isAtRest(scan)) {
      at = findCandidate(scan.search.candidates, bytes, at, to);
      for (const until = Math.min(to, at + CLOSE_BYTES); at < until; at += 1) step(scan, bytes, at);
    }
    for (; at < to && !isAtRest(scan); at += 1) step(scan, bytes, at);
  }
};

/** Start of the earliest match that may have begun and is not known yet. */
const partialStart = ({ search, raw, base, awake, decoders }: Scan): number => {
  let start = Math.min(base - (search.automaton.depths[raw.state] as number), raw.codes?.start ?? Infinity);
  if (awake > 0) for (const decoder of decoders) if (decoder.isAwake) start = Math.min(start, decoder.start());
  return start;
};

const endDecoders = (scan: Scan): void => {
  for (const decoder of scan.decoders) {
    if (!decoder.isAwake) continue;
    scan.reading = decoder.kinds;
    decoder.end();
  }
  scan.reading = 0;
};

/** @param prefix what stands before the stream, such as the name of a header: it is searched and not passed on. */
export const createEchoScanner = (search: EchoSearch, place: EchoPlace, prefix = ''): EchoScanner => {
  const first = Buffer.from(prefix);
  const scan = createScan(search, place, first.length);
  for (const at of first.keys()) step(scan, first, at);
  scan.base = first.length;
  return {
    get echoes() {
      return scan.output.echoes;
    },
    get held() {
      return scan.output.held;
    },
    *push(bytes) {
      scan.output.push(bytes);
      for (let from = 0; from < bytes.length; from += SLICE_BYTES) {
        searchBytes(scan, bytes, from, Math.min(from + SLICE_BYTES, bytes.length));
        if (from + SLICE_BYTES < bytes.length) yield;
      }
      scan.base += bytes.length;
      return scan.output.take(partialStart(scan));
    },
    end: () => {
      endDecoders(scan);
      scan.raw.codes?.end();
      return scan.output.take(Infinity);
    },
  };
};
