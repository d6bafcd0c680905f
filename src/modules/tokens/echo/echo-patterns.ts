// The spellings of opened values that the echo guard looks for, and what it writes in their place.
// Escapes of single characters are no spellings: echo-scanner.ts decodes them (docs/decisions/0125-echo-guard.md).
import { type Json, walkJson } from '../../../platform/json/json.ts';
import type { Slices } from '../../../platform/json/slices.ts';

/** A shorter text would be found where nobody wrote it. */
export const TEXT_LENGTH_MIN = 8;

/** Digits of a card number or more are looked for in groups too. */
const GROUPED_DIGITS_MIN = 12;

/** Values of one request that a guard looks for. The automaton of so many takes 15 MB: response_bytes allows it once. */
export const ECHO_BYTES_MAX = 32_768;

/** Names whose whole value is a security code. */
export const codeName = /cv[cv2]|csc|security.?code/i;
const securityCode = /^\d{3,4}$/;

export type Pattern = {
  bytes: Uint8Array;
  /** Id of the token. */
  id: string;
  /** Spells the mask as the value was spelled. */
  spell(mask: string): string;
};

const sameText = (mask: string): string => mask;
const inHex = (mask: string): string => Buffer.from(mask).toString('hex');
const inUpperHex = (mask: string): string => inHex(mask).toUpperCase();

/** The characters of base64 that the bytes alone decide, where they begin `at` bytes behind a multiple of three. */
const innerBase64 = (bytes: Uint8Array, at: number): string =>
  Buffer.concat([Buffer.alloc(at), bytes])
    .toString('base64')
    .slice(Math.ceil((at * 8) / 6), Math.floor(((at + bytes.length) * 8) / 6));

const toUrlAlphabet = (base64: string): string => base64.replaceAll('+', '-').replaceAll('/', '_');

/** Pads a mask to the same length as the value modulo three: what follows stays readable. */
const paddedLike = (mask: string, { length }: Uint8Array): Buffer => {
  const bytes = Buffer.from(mask);
  return Buffer.concat([bytes, Buffer.alloc((((length - bytes.length) % 3) + 3) % 3, ' ')]);
};

/** Groups of digits as people and forms write them: 4-4-4-4 and 4-6-5. */
const groupings = [/\d{1,4}/g, /^\d{4}|\d{6}(?=\d{1,9}$)|\d+$/g];

const spellingsOf = (text: string): string[] => {
  const digits = text.replaceAll(/[ -]/g, '');
  if (digits.length < GROUPED_DIGITS_MIN || !/^\d+$/.test(digits)) return [text];
  const grouped = groupings.flatMap((groups) => {
    const parts = digits.match(groups) ?? [];
    return [parts.join(' '), parts.join('-')];
  });
  return [...new Set([text, digits, ...grouped])];
};

/** The bytes of a text in Latin-1 and UTF-16, whose zeros the decoder leaves out. UTF-8 is another spelling. */
const otherCharsets = (text: string): Uint8Array[] => {
  const little = Buffer.from(text, 'utf16le');
  const wide = [little, Buffer.from(little).swap16()].map((bytes) => bytes.filter((byte) => byte !== 0));
  return /[^\0-\xff]/.test(text) ? wide : [Buffer.from(text, 'latin1')];
};

/** The patterns of one text of a token. */
export const patternsOf = (id: string, text: string): Pattern[] =>
  spellingsOf(text).flatMap((spelling): Pattern[] => {
    const bytes = Buffer.from(spelling);
    const hex = bytes.toString('hex');
    const coded = [0, 1, 2].flatMap((at): Pattern[] => {
      const base64 = innerBase64(bytes, at);
      const spell = (mask: string): string => innerBase64(paddedLike(mask, bytes), at);
      const urlSpelling = toUrlAlphabet(base64);
      const inUrl = {
        bytes: Buffer.from(urlSpelling),
        id,
        spell: (mask: string): string => toUrlAlphabet(spell(mask)),
      };
      return [{ bytes: Buffer.from(base64), id, spell }, ...(urlSpelling === base64 ? [] : [inUrl])];
    });
    const isAscii = bytes.length === spelling.length;
    return [
      { bytes, id, spell: sameText },
      ...(isAscii ? [] : otherCharsets(spelling).map((each) => ({ bytes: each, id, spell: sameText }))),
      { bytes: Buffer.from(hex), id, spell: inHex },
      ...(hex === hex.toUpperCase() ? [] : [{ bytes: Buffer.from(hex.toUpperCase()), id, spell: inUpperHex }]),
      ...coded,
    ];
  });

/** What an answer is searched for. */
export type EchoTexts = {
  /** Texts with the id of their token. */
  readonly texts: ReadonlyMap<string, string>;
  /** Security codes, likewise. */
  readonly codes: ReadonlyMap<string, string>;
  /** Bytes of the texts, in each grouping of digits; more than ECHO_BYTES_MAX where not all of them are here. */
  readonly bytes: number;
};

/** The texts in the data of tokens, with their ids. Linear in their size, up to ECHO_BYTES_MAX. */
export function* readEchoTexts(opened: readonly (readonly [id: string, data: Json])[]): Slices<EchoTexts> {
  const texts = new Map<string, string>();
  const codes = new Map<string, string>();
  let bytes = 0;
  for (const [id, data] of opened) {
    const walk = walkJson(data);
    while (walk.next() && bytes <= ECHO_BYTES_MAX) {
      if (walk.isPauseDue()) yield;
      const { name, value } = walk;
      if (typeof value !== 'string' && typeof value !== 'number') continue;
      const text = String(value);
      if (typeof name === 'string' && codeName.test(name) && securityCode.test(text)) codes.set(text, id);
      if (text.length < TEXT_LENGTH_MIN || texts.has(text)) continue;
      // A long text is over the limit whatever its groups are.
      bytes += text.length > ECHO_BYTES_MAX ? text.length : sizeOf(spellingsOf(text));
      texts.set(text, id);
    }
  }
  return { texts, codes, bytes };
}

const sizeOf = (spellings: readonly string[]): number =>
  spellings.reduce((sum, spelling) => sum + Buffer.byteLength(spelling), 0);
