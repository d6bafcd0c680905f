// One reading of a stream: its bytes with one kind of escapes decoded. It follows the automaton on its own only where an escape stands
// in what may be a match; elsewhere all readings are the same, and the scanner follows one.
import { type Automaton, ROOT } from './automaton.ts';
import { ESCAPE_BYTES_MAX, escapeStarts, readEscape, utf8Of } from './escapes.ts';
import type { CodeFinder } from './security-codes.ts';

/** Where the automaton stands in the bytes as they came. */
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
  /** The stream has ended before `at`. */
  end(at: number): void;
  /** Where a match may have begun; Infinity if none has. */
  start(): number;
};

/** Of an automaton and the codes that a request looks for. */
export type DecoderOptions = {
  automaton: Automaton;
  createCodeFinder: (() => CodeFinder) | undefined;
  /** @param start of the match in the stream. @param end behind it. @param pattern its index. */
  found(start: number, end: number, pattern: number): void;
};

/** @param lengths of the patterns. */
export const createEchoDecoder = (
  kinds: number,
  lengths: readonly number[],
  { automaton, createCodeFinder, found }: DecoderOptions,
): EchoDecoder => {
  const { step: next, depths, ends, depthMax } = automaton;
  const pending = new Uint8Array(ESCAPE_BYTES_MAX);
  const size = 2 ** Math.ceil(Math.log2(depthMax + 1));
  /** Where each of the last units began, a ring. Made when it is needed. */
  let starts: Float64Array | undefined;
  let codes: CodeFinder | undefined;
  let units = 0;
  /** Units before the end of the last one that was an escape. */
  let decodedUnits = 0;
  let state = ROOT;
  let isAwake = false;
  let pendingBytes = 0;
  let pendingAt = 0;

  const startOf = (back: number): number => (starts as Float64Array)[(units - back) & (size - 1)] as number;

  const take = (byte: number, start: number, end: number): void => {
    (starts as Float64Array)[units & (size - 1)] = start;
    units += 1;
    state = next(state, byte);
    const pattern = ends[state] as number;
    if (pattern !== -1) found(startOf(lengths[pattern] as number), end, pattern);
    codes?.step(byte, start, end);
  };

  const settle = (isEnd: boolean): void => {
    const read = readEscape(pending, pendingBytes, isEnd);
    if (read === 'more' && !isEnd) return;
    const isRead = typeof read === 'object';
    const used = isRead ? read.used : 1;
    const rest = used < pendingBytes ? pending.slice(used, pendingBytes) : undefined;
    const from = pendingAt + used;
    pendingBytes = 0;
    if (!isRead) take(pending[0] as number, pendingAt, from);
    else if (read.isByte && read.point >= 0) take(read.point, pendingAt, from);
    else if (read.point >= 0) for (const byte of utf8Of(read.point)) take(byte, pendingAt, from);
    if (isRead) decodedUnits = units;
    if (rest) for (const [index, byte] of rest.entries()) step(byte, from + index);
    if (isEnd && pendingBytes > 0) settle(true);
  };

  const step = (byte: number, at: number): void => {
    if (pendingBytes === 0 && ((escapeStarts[byte] as number) & kinds) === 0) return take(byte, at, at + 1);
    if (pendingBytes === 0) pendingAt = at;
    pending[pendingBytes] = byte;
    pendingBytes += 1;
    settle(false);
  };

  return {
    kinds,
    get isAwake() {
      return isAwake;
    },
    wake: (raw, at) => {
      isAwake = true;
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
    step,
    sleepIfSame: (at) => {
      const depth = depths[state] as number;
      const isAsItCame = depth === 0 || (units - depth >= decodedUnits && startOf(depth) === at - depth);
      const isSame = pendingBytes === 0 && isAsItCame && codes?.isIdle !== false;
      if (isSame) isAwake = false;
      return isSame;
    },
    end: () => {
      if (pendingBytes > 0) settle(true);
      codes?.end();
    },
    start: () => {
      const depth = depths[state] as number;
      const partial = depth === 0 ? Infinity : startOf(depth);
      return Math.min(partial, pendingBytes === 0 ? Infinity : pendingAt, codes?.start ?? Infinity);
    },
  };
};
