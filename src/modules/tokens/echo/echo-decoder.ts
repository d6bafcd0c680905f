// One reading of a stream: its bytes with one kind of escapes decoded. It follows the automaton on its own only where an escape stands
// in what may be a match; elsewhere all readings are the same, and the scanner follows one.
import { type Automaton, ROOT } from './automaton.ts';
import { ESCAPE_BYTES_MAX, escapeStarts, readEscape, utf8Of } from './escapes.ts';
import type { CodeFinder } from './security-codes.ts';

/** Kinds of escapes that are decoded, once or twice. */
export type Reading = { kinds: number; isTwice: boolean };

/** State of the automaton in the bytes as they came. */
export type RawState = { state: number; codes: CodeFinder | undefined };

export type EchoDecoder = {
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
export type DecoderOptions = {
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
export const createEchoDecoder = (
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
