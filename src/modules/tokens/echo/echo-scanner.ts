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
import { createEchoDecoder, type EchoDecoder, type RawState, type Reading } from './echo-decoder.ts';
import { type EchoTexts, type Pattern, patternsOf } from './echo-patterns.ts';
import { createEchoOutput, type EchoOutput, type EchoPlace } from './echo-output.ts';
import { escapeKinds, escapeStarts } from './escapes.ts';
import { createCodeFinder } from './security-codes.ts';

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

export type EchoScanner = {
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
