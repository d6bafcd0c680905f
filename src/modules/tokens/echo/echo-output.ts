// What goes on of a searched stream: bytes as they came, and masks in place of matches.
import type { Pattern } from './echo-patterns.ts';
import { escapeKinds } from './escapes.ts';

/** What a stream is: a mask is escaped for its place in it. */
export type EchoPlace = 'json' | 'markup' | 'form' | 'text';

type Match = { start: number; end: number; mask: { reading: number; pattern: Pattern } | undefined };

export type EchoOutput = {
  readonly echoes: number;
  /** Bytes that came and have not gone on. */
  readonly held: number;
  push(bytes: Uint8Array): void;
  /** Notes a match; of overlapping ones the first gives the mask. */
  mask(start: number, end: number, reading: number, pattern: Pattern): void;
  /** @param safe matches that are not known yet begin behind it. */
  take(safe: number): Uint8Array[];
};

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);

const markupEscapes: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

const inMarkup = (text: string): string => text.replaceAll(/[&<>"']/g, (each) => markupEscapes[each] as string);

const escapesOf: Record<EchoPlace, (text: string) => string> = {
  json: inJson,
  markup: inMarkup,
  form: encodeURIComponent,
  text: (text) => text,
};

/** Chooses escapes by the kind of escapes in which the value was found, else by the place. */
const escapeOf = (reading: number, place: EchoPlace): ((text: string) => string) => {
  if (reading === escapeKinds.json) return inJson;
  if (reading === escapeKinds.html) return inMarkup;
  if ((reading & escapeKinds.percent) !== 0 && (reading & escapeKinds.json) === 0) return encodeURIComponent;
  return escapesOf[place];
};

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Table by two neighbouring bytes, `first + second * 256`: 1 for one quote; 2 and more if there is a backslash. */
const jsonWords = Uint8Array.from({ length: 65_536 }, (_, word) => {
  const both = [word & 0xff, word >>> 8];
  return both.includes(BACKSLASH) ? 2 : both.filter((byte) => byte === QUOTE).length & 1;
});

/** Tells whether bytes of JSON that went by end in a text. Outside of a text JSON has no backslash. */
const createJsonPosition = () => {
  let isInText = 0;
  let isEscaped = false;
  return {
    pass: (bytes: Uint8Array): void => {
      let at = isEscaped ? 1 : 0;
      const last = bytes.length - 1;
      while (at < last) {
        const first = bytes[at] as number;
        const word = jsonWords[first | ((bytes[at + 1] as number) << 8)] as number;
        if (word < 2) isInText ^= word;
        else if (first !== BACKSLASH) {
          isInText ^= Number(first === QUOTE);
          at += 1;
          continue;
        }
        at += 2;
      }
      isEscaped = at === last && bytes[at] === BACKSLASH;
      if (at === last) isInText ^= Number(bytes[at] === QUOTE);
    },
    isInText: () => isInText === 1,
  };
};

/** @param start where the stream begins. */
export const createEchoOutput = (place: EchoPlace, start: number): EchoOutput => {
  const json = place === 'json' ? createJsonPosition() : undefined;
  /** Bytes that came and have not gone on, in order. */
  const held: { at: number; bytes: Uint8Array }[] = [];
  /** In order, none overlaps another. */
  const matches: Match[] = [];
  let out: Uint8Array[] = [];
  let came = start;
  let gone = start;
  let written = 0;

  /** Takes held bytes up to a position off; `pass` says whether they go on. */
  const advance = (to: number, pass: boolean): void => {
    while (gone < to) {
      const [first] = held;
      if (!first) break;
      const upTo = Math.min(to, first.at + first.bytes.length);
      const part = first.bytes.subarray(gone - first.at, upTo - first.at);
      if (pass && part.length > 0) {
        json?.pass(part);
        out.push(part);
      }
      gone = upTo;
      if (gone === first.at + first.bytes.length) held.shift();
    }
  };

  /** Zero bytes between two characters, where the value stands in UTF-16 or UTF-32. */
  const zerosAt = (at: number): number => {
    const bytes = Buffer.concat(held.map((piece) => piece.bytes)).subarray(at - (held[0]?.at ?? 0) + 1);
    const zeros = bytes.findIndex((byte) => byte !== 0);
    return Math.max(zeros, 0);
  };

  const maskBytes = ({ reading, pattern }: NonNullable<Match['mask']>): Uint8Array => {
    const escape = escapeOf(reading, place);
    const text = escape(pattern.spell(`{{ ${pattern.id} }}`));
    const zeros = (reading & escapeKinds.nul) === 0 ? 0 : zerosAt(gone);
    if (zeros > 0) return Buffer.from([...text].join('\0'.repeat(zeros)));
    return Buffer.from(json?.isInText() === false ? JSON.stringify(pattern.spell(`{{ ${pattern.id} }}`)) : text);
  };

  return {
    get echoes() {
      return matches.reduce((sum, { mask }) => sum + Number(mask !== undefined), written);
    },
    get held() {
      return came - gone;
    },
    push: (bytes) => {
      held.push({ at: came, bytes });
      came += bytes.length;
    },
    mask: (from, end, reading, pattern) => {
      if (end <= gone) return;
      // What stood before has a mask already.
      const match: Match = { start: Math.max(from, gone), end, mask: from < gone ? undefined : { reading, pattern } };
      let last = matches.at(-1);
      while (last && match.start < last.end) {
        matches.pop();
        if (last.start <= match.start) match.mask = last.mask;
        match.start = Math.min(match.start, last.start);
        match.end = Math.max(match.end, last.end);
        last = matches.at(-1);
      }
      matches.push(match);
    },
    take: (safe) => {
      for (let [first] = matches; first && first.start <= safe; [first] = matches) {
        matches.shift();
        advance(first.start, true);
        if (first.mask) {
          written += 1;
          out.push(maskBytes(first.mask));
        }
        advance(first.end, false);
      }
      // A match that waits begins behind what is safe.
      advance(Math.min(safe, came), true);
      const ready = out;
      out = [];
      return ready;
    },
  };
};
