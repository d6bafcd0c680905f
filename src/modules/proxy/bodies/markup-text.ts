// Finds expressions in texts and quoted attributes of XML and HTML, and escapes values so that they cannot end either.
// One pass, which accepts markup that is not well-formed.
import type { References } from '../../tokens/expressions/expansion.ts';
import { JSON_SLICE_CHARACTERS } from '../../../platform/json/json-parser.ts';
import type { Slices } from '../../../platform/json/slices.ts';
import type { Charset } from './body-kind.ts';
import { createTextSlot, cutText, encodableAt, type Encode, type TextParts, refuseValue } from './text-parts.ts';

/** The position of a value. `tag` is within angle brackets and outside quotes. */
type State = 'text' | 'tag' | 'double' | 'single' | 'cdata' | 'comment' | 'instruction' | 'declaration';

/**
 * The next delimiter of each state, and the state after it. XML and HTML end some of these differently: no unescaped value
 * contains a delimiter of either.
 */
const steps: Record<State, { next: RegExp; to: Record<string, State> }> = {
  text: {
    // At the end of a literal an expression follows: its value would become a tag name or the rest of `<!--`.
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

function* stateAfter(literal: string, before: State): Slices<State> {
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
    // In HTML, the dashes that open a comment may also end it.
    at = found === '<!--' ? next.lastIndex - 2 : next.lastIndex;
  }
}

/** Characters that XML cannot contain, even as references (XML 1.0 section 2.2). */
const notInXml = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u;

/**
 * Line ends and tabs become references: a parser turns a CR into an LF (XML 1.0 section 2.11), and each of them into a space
 * in an attribute (section 3.3.3). A reference is also correct in texts.
 */
const special = { utf8: /[&<>"'\t\n\r]/g, latin1: /[&<>"'\t\n\r]|[^\0-\x7e]/gu };

const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

const escapeMarkup = (value: string, charset: Charset): string =>
  value.replace(special[charset], (each) => names[each] ?? `&#${each.codePointAt(0)};`);

/** Within CDATA unchanged, or, if the value could end the section, escaped between two sections. */
const encodeCdata = (value: string, charset: Charset): string => {
  const isPlain = charset === 'utf8' ? /^[^\]<>\r]*$/ : /^[^\]<>\r\x7f-\uffff]*$/;
  return isPlain.test(value) ? value : `]]>${escapeMarkup(value, charset)}<![CDATA[`;
};

/** Comments and instructions have no escapes. */
const notIn = { comment: /[<>]|--|^-|-$/, instruction: /[<>?]/ };

const encoderIn = (state: State, charset: Charset, place: string): Encode => {
  if (state === 'tag' || state === 'declaration')
    throw refuseValue(place, 'must have its expressions in texts and in quoted attributes');
  return (value) => {
    if (notInXml.test(value)) throw refuseValue(place, 'must insert only characters that XML can hold');
    if (state === 'cdata') return encodeCdata(value, charset);
    if (state !== 'comment' && state !== 'instruction') return escapeMarkup(value, charset);
    if (notIn[state].test(value))
      throw refuseValue(place, 'must not insert text that would end a comment or an instruction');
    return encodableAt(charset, place)(value);
  };
};

/** Pauses after each slice. @throws invalidInput at the place. */
export function* splitMarkup(text: string, charset: Charset, place: string, references: References): Slices<TextParts> {
  if (!text.includes('{{')) return [text];
  let state: State = 'text';
  const parts: TextParts = [];
  for (const cut of cutText(text, place, references)) {
    if (cut.isExpression) parts.push(createTextSlot(cut.text, place, references, encoderIn(state, charset, place)));
    else {
      state = yield* stateAfter(cut.text, state);
      parts.push(cut.text);
    }
  }
  return parts;
}

/** The longest declaration, with spaces. */
const DECLARATION_BYTES_MAX = 256;

const declaration = /^(?:\xef\xbb\xbf)?<\?xml[\t\n\r ][^<>]*?[\t\n\r ]encoding[\t\n\r ]*=[\t\n\r ]*["']([\w.-]+)["']/;

export const declaredEncoding = (document: Buffer): string | undefined =>
  declaration.exec(document.toString('latin1', 0, DECLARATION_BYTES_MAX))?.[1];

/** Declares UTF-8 in a document that was converted from UTF-16. */
export const writeDeclaredEncoding = (text: string): string => {
  const match = declaration.exec(text.slice(0, DECLARATION_BYTES_MAX));
  if (!match) return text;
  const [all, label = ''] = match;
  const from = all.length - 1 - label.length;
  return `${text.slice(0, from)}UTF-8${text.slice(all.length - 1)}`;
};
