// Finds opened values in a stream and writes masks in their place. Passes on at once what cannot be the beginning of a match.
import type { Slices } from '../../../platform/json/slices.ts';
import { type Automaton, createAutomaton, ROOT } from './automaton.ts';
import { createEchoDecoder, type EchoDecoder, type Reading } from './echo-decoder.ts';
import { type EchoTexts, type Pattern, patternsOf } from './echo-patterns.ts';
import { createEchoOutput, type EchoPlace } from './echo-output.ts';
import { AMPERSAND, escapeKinds, escapeStarts, glanceAtEscape, HASH, isAlphanumeric, UNKNOWN } from './escapes.ts';
import { createCodeFinder, nameStarts } from './security-codes.ts';

/** Bytes that are searched between two pauses: at most a millisecond. */
const SLICE_BYTES = 16_384;

/** Of each eight bytes that are a match, as no pattern is shorter, the scanner looks at four that are neighbours. */
const STRIDE = 4;
const LOOK_BYTES = 4;
/** The same where names are looked for, of three letters and more: at two of three. */
const STRIDE_OF_NAMES = 2;

/** What a request looks for in the answer to it. */
export type EchoSearch = {
  readonly automaton: Automaton;
  readonly patterns: readonly Pattern[];
  readonly lengths: readonly number[];
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
  const automaton = yield* createAutomaton(patterns.map(({ bytes }) => bytes));
  return { automaton, patterns, lengths: patterns.map(({ bytes }) => bytes.length), codes };
}

export type EchoScanner = {
  /** Searches a chunk. @returns what may pass on, masked. */
  push(chunk: Uint8Array): Slices<Uint8Array[]>;
  /** The stream has ended. @returns the rest. */
  end(): Uint8Array[];
  /** Values found so far, also those that were not passed on yet. */
  readonly echoes: number;
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
  { kinds: anyEscape, isTwice: true },
];

/** @param prefix what stands before the stream, such as the name of a header: it is searched and not passed on. */
export const createEchoScanner = (search: EchoSearch, place: EchoPlace, prefix = ''): EchoScanner => {
  const { automaton, patterns, lengths } = search;
  const { step: next, depths, ends, firsts, pairs } = automaton;
  const hasCodes = search.codes.size > 0;
  const stride = hasCodes ? STRIDE_OF_NAMES : STRIDE;
  const output = createEchoOutput(place, Buffer.byteLength(prefix));
  /** The reading that is being stepped; 0 for the bytes as they came. */
  let reading = 0;
  const found = (start: number, end: number, pattern: number): void =>
    output.mask(start, end, reading, patterns[pattern] as Pattern);
  const newCodeFinder = hasCodes
    ? () =>
        createCodeFinder(search.codes, (start, end, id) =>
          output.mask(start, end, reading, { bytes: new Uint8Array(), id, spell: (mask) => mask }),
        )
    : undefined;
  const raw = { state: ROOT, codes: newCodeFinder?.() };
  /** Made when they are needed: most streams have no escape in what may be a match. */
  let decoders: EchoDecoder[] = [];
  const makeDecoders = (): EchoDecoder[] =>
    readings.map((each) => createEchoDecoder(each, lengths, { automaton, createCodeFinder: newCodeFinder, found }));
  let awake = 0;
  const beginsWithEntity = firsts.some((isFirst, byte) => isFirst === 1 && !isAlphanumeric(byte));
  /** Bytes of the stream before the chunk. */
  let base = 0;

  const stepDecoders = (byte: number, at: number): void => {
    const kinds = escapeStarts[byte] as number;
    if (decoders.length === 0) decoders = makeDecoders();
    for (const decoder of decoders) {
      if (!decoder.isAwake && (decoder.kinds & kinds) !== 0) {
        decoder.wake(raw, at);
        awake += 1;
      }
      if (!decoder.isAwake) continue;
      reading = decoder.kinds;
      decoder.step(byte, at);
      if (decoder.sleepIfSame(at + 1)) awake -= 1;
    }
    reading = 0;
  };

  const stepRaw = (byte: number, at: number): void => {
    raw.state = next(raw.state, byte);
    const pattern = ends[raw.state] as number;
    if (pattern !== -1) found(at + 1 - (lengths[pattern] as number), at + 1, pattern);
    raw.codes?.step(byte, at, at + 1);
  };

  const stepAll = (byte: number, at: number): void => {
    if (awake > 0 || escapeStarts[byte] !== 0) stepDecoders(byte, at);
    stepRaw(byte, at);
  };

  const isAtRest = (): boolean => raw.state === ROOT && awake === 0 && raw.codes?.isIdle !== false;

  const isPair = (bytes: Uint8Array, at: number): boolean =>
    pairs[(bytes[at] as number) * 256 + (bytes[at + 1] as number)] === 1;

  const mayBeMatch = (bytes: Uint8Array, at: number): boolean =>
    (isPair(bytes, at) && isPair(bytes, at + 1) && isPair(bytes, at + 2)) ||
    (hasCodes && nameStarts.pairs[(bytes[at] as number) * 256 + (bytes[at + 1] as number)] === 1);

  /**
   * Where nothing has begun: looks at few bytes until these may be of a match, or an escape comes. A match that begins behind the
   * last look has the bytes of the next one. @returns from where to look closely.
   */
  const skip = (bytes: Uint8Array, from: number, to: number): number => {
    let clean = from;
    const last = to - LOOK_BYTES;
    for (let at = clean + stride - 1; at <= last; at += stride) {
      if (mayBeMatch(bytes, at)) return clean;
      clean = at + 1;
    }
    return clean;
  };

  /** Of an escape with nothing begun before it. */
  const mayBegin = (bytes: Uint8Array, at: number): boolean => {
    const byte = glanceAtEscape(bytes, at);
    const second = bytes[at + 1];
    if (byte === UNKNOWN)
      return bytes[at] !== AMPERSAND || second === undefined || beginsWithEntity || beginsEscapingEntity(second);
    // An escape within an escape.
    if (byte > 0 && escapeStarts[byte] !== 0) return true;
    return byte >= 0 && (firsts[byte] === 1 || (hasCodes && nameStarts.firsts[byte] === 1));
  };

  const partialStart = (): number => {
    let start = Math.min(base - (depths[raw.state] as number), raw.codes?.start ?? Infinity);
    if (awake > 0) for (const decoder of decoders) if (decoder.isAwake) start = Math.min(start, decoder.start());
    return start;
  };

  const searchBytes = (bytes: Buffer, from: number, to: number, nextEscape: NextEscape): void => {
    let at = from;
    while (at < to) {
      if (isAtRest()) {
        const escape = nextEscape(at);
        at = skip(bytes, at, Math.min(to, escape));
        // From there to what was looked at last, or to the escape, the bytes are looked at one by one.
        for (const until = Math.min(to, at + stride + LOOK_BYTES, escape); at < until; at += 1)
          stepAll(bytes[at] as number, base + at);
        if (at === escape && at < to) {
          const step = isAtRest() && !mayBegin(bytes, at) ? stepRaw : stepAll;
          step(bytes[at] as number, base + at);
          at += 1;
        }
      }
      for (; at < to && !isAtRest(); at += 1) stepAll(bytes[at] as number, base + at);
    }
  };

  const first = Buffer.from(prefix);
  for (const [at, byte] of first.entries()) stepAll(byte, at);
  base = first.length;

  return {
    get echoes() {
      return output.echoes;
    },
    *push(chunk) {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      const nextEscape = findNextEscape(bytes);
      output.push(bytes);
      for (let from = 0; from < bytes.length; from += SLICE_BYTES) {
        searchBytes(bytes, from, Math.min(from + SLICE_BYTES, bytes.length), nextEscape);
        if (from + SLICE_BYTES < bytes.length) yield;
      }
      base += bytes.length;
      return output.take(partialStart());
    },
    end: () => {
      for (const decoder of decoders) {
        if (!decoder.isAwake) continue;
        reading = decoder.kinds;
        decoder.end();
      }
      reading = 0;
      raw.codes?.end();
      return output.take(Infinity);
    },
  };
};

/** A number, or a name such as `amp`, `bsol`, `percnt` and `plus`, which stand for the beginning of another escape. */
const beginsEscapingEntity = (second: number): boolean =>
  second === HASH || 'aAbp'.includes(String.fromCharCode(second));

type NextEscape = (from: number) => number;

const escapeBytes = [...escapeStarts.keys()].filter((byte) => escapeStarts[byte] !== 0);

/** The position of the next byte that may begin an escape. Each call asks for a later one. */
const findNextEscape = (bytes: Buffer): NextEscape => {
  const nexts = escapeBytes.map(() => -1);
  return (from) => {
    let nearest = Infinity;
    for (let index = 0; index < nexts.length; index += 1) {
      let next = nexts[index] as number;
      if (next < from) {
        const found = bytes.indexOf(escapeBytes[index] as number, from);
        next = found === -1 ? Infinity : found;
        nexts[index] = next;
      }
      if (next < nearest) nearest = next;
    }
    return nearest;
  };
};
