// XML and HTML with expressions in texts and in quoted attributes: a value is written so that it cannot end either, and reads
// back as what it is. Follows the markup once from its start to its end, and does not ask whether it is well-formed.
import type { References } from '../vault/expansion.ts';
import { JSON_SLICE_CHARACTERS, type Slices } from '../vault/json-parser.ts';
import type { Charset } from './body-kind.ts';
import { createTextSlot, cutText, encodableAt, type Encode, type Pieces, refuseValue } from './pieces.ts';

/** Where a value would stand: `tag` is between angle brackets and outside quotes. */
type State = 'text' | 'tag' | 'double' | 'single' | 'cdata' | 'comment' | 'instruction' | 'declaration';

/**
 * What to look for next, and where it leads. XML and HTML end some of these differently: nothing that stands bare in a value
 * ends any of them for either.
 */
const steps: Record<State, { next: RegExp; to: Record<string, State> }> = {
  text: {
    // At the end of a literal an expression follows, and so a name or the rest of `<!--` would be made of a value.
    next: /<(?:!--|!\[CDATA\[|[!?]|(?=[A-Za-z_:/\x80-\uffff]|$))/g,
    to: { '<!--': 'comment', '<![CDATA[': 'cdata', '<?': 'instruction', '<!': 'declaration', '<': 'tag' },
  },
  tag: { next: /[>"']/g, to: { '>': 'text', '"': 'double', "'": 'single' } },
  double: { next: /"/g, to: { '"': 'tag' } },
  single: { next: /'/g, to: { "'": 'tag' } },
  cdata: { next: /\]\]>/g, to: { ']]>': 'text' } },
  comment: { next: /--!?>/g, to: { '-->': 'text', '--!>': 'text' } },
  instruction: { next: /\?>/g, to: { '?>': 'text' } },
  declaration: { next: />/g, to: { '>': 'text' } },
};

function* stateBehind(literal: string, before: State): Slices<State> {
  let state = before;
  let pauseAt = JSON_SLICE_CHARACTERS;
  for (let at = 0; ;) {
    if (at >= pauseAt) {
      yield;
      pauseAt = at + JSON_SLICE_CHARACTERS;
    }
    const { next, to } = steps[state];
    next.lastIndex = at;
    const found = next.exec(literal)?.[0];
    if (found === undefined) return state;
    state = to[found] as State;
    // In HTML the dashes that open a comment can be those that end it.
    at = found === '<!--' ? next.lastIndex - 2 : next.lastIndex;
  }
}

/** XML 1.0 section 2.2: characters that it cannot hold, as references neither. */
const notInXml = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u;

/**
 * Line ends and tabs as references: a parser makes a bare CR an LF (XML 1.0 section 2.11), and each of them a space in an
 * attribute (section 3.3.3). In a text the reference means the same, so there is one rule for both.
 */
const special = { utf8: /[&<>"'\t\n\r]/g, latin1: /[&<>"'\t\n\r]|[^\0-\x7e]/gu };

const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

const escapeMarkup = (value: string, charset: Charset): string =>
  value.replace(special[charset], (each) => names[each] ?? `&#${each.codePointAt(0)};`);

/** In a section of CDATA as it is, unless something in it could end the section: then between two sections. */
const encodeCdata = (value: string, charset: Charset): string => {
  const isPlain = charset === 'utf8' ? /^[^\]<>\r]*$/ : /^[^\]<>\r\x7f-\uffff]*$/;
  return isPlain.test(value) ? value : `]]>${escapeMarkup(value, charset)}<![CDATA[`;
};

/** Nothing can be escaped in these. */
const notIn = { comment: /[<>]|--|^-|-$/, instruction: /[<>?]/ };

const encoderIn = (state: State, charset: Charset, place: string): Encode => {
  if (state === 'tag' || state === 'declaration')
    throw refuseValue(place, 'must have its expressions in texts and in quoted attributes');
  return (value) => {
    if (notInXml.test(value)) throw refuseValue(place, 'must put in characters that XML can hold');
    if (state === 'cdata') return encodeCdata(value, charset);
    if (state !== 'comment' && state !== 'instruction') return escapeMarkup(value, charset);
    if (notIn[state].test(value))
      throw refuseValue(place, 'must not put in what would end a comment or an instruction');
    return encodableAt(charset, place)(value);
  };
};

/** Pauses after each slice. @throws invalidInput at the place. */
export function* splitMarkup(text: string, charset: Charset, place: string, references: References): Slices<Pieces> {
  if (!text.includes('{{')) return [text];
  let state: State = 'text';
  const pieces: Pieces = [];
  for (const cut of cutText(text, place, references)) {
    if (cut.isExpression) pieces.push(createTextSlot(cut.text, place, references, encoderIn(state, charset, place)));
    else {
      state = yield* stateBehind(cut.text, state);
      pieces.push(cut.text);
    }
  }
  return pieces;
}

/** Where a declaration ends, with room for spaces. */
const DECLARATION_BYTES_MAX = 256;

const declaration = /^(?:\xef\xbb\xbf)?<\?xml[\t\n\r ][^<>]*?[\t\n\r ]encoding[\t\n\r ]*=[\t\n\r ]*["']([\w.-]+)["']/;

/** The encoding that an XML document declares for itself. */
export const declaredEncoding = (document: Buffer): string | undefined =>
  declaration.exec(document.toString('latin1', 0, DECLARATION_BYTES_MAX))?.[1];

/** A document that was in UTF-16 and will be in UTF-8 says so. */
export const writeDeclaredEncoding = (text: string): string => {
  const match = declaration.exec(text.slice(0, DECLARATION_BYTES_MAX));
  if (!match) return text;
  const [all, label = ''] = match;
  const from = all.length - 1 - label.length;
  return `${text.slice(0, from)}UTF-8${text.slice(all.length - 1)}`;
};
