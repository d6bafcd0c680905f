// Finds a security code in a stream: only as the whole value of a name such as `cvc`, in JSON, in a form or in markup. Three digits
// are everywhere.
import { runAtOnce } from '../../../platform/json/slices.ts';
import { type Automaton, createAutomaton, ROOT } from './automaton.ts';

/** The names of `codeName` in lower case. */
export const codeNames: readonly string[] = [
  'cvc',
  'cvv',
  'cv2',
  'csc',
  ...['', '_', '-', '.', ' '].map((between) => `security${between}code`),
];

let shared: Automaton | undefined;
const nameAutomaton = (): Automaton =>
  (shared ??= runAtOnce(createAutomaton(codeNames.map((name) => Buffer.from(name)))));

/** Characters of a name behind the part that matches, and between it and its value. */
const BETWEEN_MAX = 64;
const DIGITS_MAX = 4;

type Phase = 'search' | 'name' | 'named' | 'value' | 'digits';

const isIn = (text: string): ((byte: number) => boolean) => {
  const set = new Uint8Array(256);
  for (const character of text) set[character.charCodeAt(0)] = 1;
  return (byte) => set[byte] === 1;
};

const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';
const isDigit = isIn('0123456789');
const isInName = isIn(`${LETTERS}0123456789_-.[]`);
const isQuote = isIn(`"'`);
const isSign = isIn('=>:');
/** Also another attribute's name: `name="cvc" value="123"`. */
const isBehindName = isIn(`${LETTERS} \t\r\n"'`);
const isBeforeValue = isIn(` \t\r\n"'<![CDATA`);
const continuesValue = isIn(`${LETTERS}0123456789.`);

export type CodeFinder = {
  /** @param start of the byte in the stream; @param end behind it. */
  step(byte: number, start: number, end: number): void;
  end(): void;
  /** Start of a code that may have begun; Infinity if none has. */
  readonly start: number;
  readonly isIdle: boolean;
  copyFrom(other: CodeFinder): void;
  state(): CodeState;
};

type CodeState = { phase: Phase; name: number; count: number; digits: string; from: number; to: number };

export const createCodeFinder = (
  codes: ReadonlyMap<string, string>,
  found: (start: number, end: number, id: string) => void,
): CodeFinder => {
  const automaton = nameAutomaton();
  let at: CodeState = { phase: 'search', name: ROOT, count: 0, digits: '', from: 0, to: 0 };

  const go = (phase: Phase): void => {
    at.phase = phase;
    at.count = 0;
  };
  const end = (): void => {
    const id = at.phase === 'digits' ? codes.get(at.digits) : undefined;
    if (id !== undefined) found(at.from, at.to, id);
    go('search');
  };
  const stay = (isPossible: boolean): void => {
    at.count += 1;
    if (!isPossible || at.count > BETWEEN_MAX) go('search');
  };
  const stepPhase = (byte: number, start: number, endsAt: number): void => {
    switch (at.phase) {
      case 'search':
        return;
      case 'name':
        if (isQuote(byte)) go('named');
        else if (isSign(byte)) go('value');
        else stay(isInName(byte));
        return;
      case 'named':
        if (isSign(byte)) go('value');
        else stay(isBehindName(byte));
        return;
      case 'value':
        if (!isDigit(byte)) return stay(isBeforeValue(byte));
        go('digits');
        at.digits = String.fromCharCode(byte);
        at.from = start;
        at.to = endsAt;
        return;
      case 'digits':
        if (isDigit(byte) && at.digits.length < DIGITS_MAX) {
          at.digits += String.fromCharCode(byte);
          at.to = endsAt;
        } else if (continuesValue(byte)) go('search');
        else end();
    }
  };

  return {
    step: (byte, start, endsAt) => {
      stepPhase(byte, start, endsAt);
      const lower = byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte;
      at.name = automaton.step(at.name, lower);
      if (automaton.ends[at.name] !== -1) go('name');
    },
    end,
    get start() {
      return at.phase === 'digits' ? at.from : Infinity;
    },
    get isIdle() {
      return at.phase === 'search' && at.name === ROOT;
    },
    copyFrom: (other) => {
      at = { ...other.state() };
    },
    state: () => at,
  };
};
