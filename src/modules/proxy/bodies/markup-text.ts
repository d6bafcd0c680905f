// Finds expressions in texts and quoted attributes of XML and HTML, and escapes values so that they cannot end either.
// One pass, which accepts markup that is not well-formed.
import type { References } from '../../tokens/expressions/expansion.ts';
import { JSON_SLICE_CHARACTERS } from '../../../platform/json/json-parser.ts';
import type { Slices } from '../../../platform/json/slices.ts';
import type { Charset } from './body-kind.ts';
import { createTextSlot, cutText, encodableAt, type Encode, type TextParts, refuseValue } from './text-parts.ts';

/** The position of a value. `tag` is within angle brackets and outside quotes. `raw` is text in which escapes are not read. */
type State = 'text' | 'tag' | 'double' | 'single' | 'cdata' | 'comment' | 'instruction' | 'declaration' | 'raw';

/** Where a literal ends. */
type Position = {
  state: State;
  /** The element that the tag opens; empty for an end tag. */
  tag: string;
  /** The attribute whose value is quoted here. */
  attribute: string;
  /** Whether the literal ends with the quote that begins an attribute. */
  isAtStart: boolean;
};

/**
 * The next delimiter of each state, and the state after it. XML and HTML end some of these differently: no unescaped value
 * contains a delimiter of either.
 */
const steps: Record<Exclude<State, 'raw'>, { next: RegExp; to: Record<string, State> }> = {
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

/** Elements of HTML that end at their end tag only (HTML section 13.1.2). Scripts of SVG and XHTML count too. */
const rawEnds = new Map(
  ['script', 'style', 'xmp', 'iframe', 'noembed', 'noframes', 'noscript', 'plaintext'].map((name) => [
    name,
    new RegExp(`</(?:[a-z]+:)?${name}(?=[\\t\\n\\f\\r />])`, 'gi'),
  ]),
);

/** A prefix of XML does not count: `svg:script` is a script. */
const tagName = /(?:[a-z]+:)?([a-z][a-z0-9]*)/iy;

/** The longest name that matters has 10 characters. Blanks may stand around the equals sign. */
const ATTRIBUTE_CHARACTERS_MAX = 100;

const attributeBefore = /([^\t\n\f\r "'<>/=]+)[\t\n\f\r ]*=[\t\n\f\r ]*$/;

function* positionAfter(literal: string, before: Position, isHtml: boolean): Slices<Position> {
  let { state, tag, attribute } = before;
  let pauseAt = JSON_SLICE_CHARACTERS;
  for (let at = 0; ;) {
    if (at >= pauseAt) {
      yield;
      pauseAt = at + JSON_SLICE_CHARACTERS;
    }
    const { next, to } = state === 'raw' ? { next: rawEnds.get(tag) as RegExp, to: undefined } : steps[state];
    next.lastIndex = at;
    const match = next.exec(literal);
    if (match === null) return { state, tag, attribute, isAtStart: false };
    const [found] = match;
    const end = next.lastIndex;
    if (to === undefined) {
      state = 'tag';
      tag = '';
    } else if (found === '>' && state === 'tag' && isHtml && rawEnds.has(tag)) state = 'raw';
    else {
      if (found === '<') {
        tagName.lastIndex = end;
        tag = tagName.exec(literal)?.[1]?.toLowerCase() ?? '';
      } else if (state === 'tag' && found !== '>')
        attribute =
          attributeBefore.exec(literal.slice(Math.max(0, match.index - ATTRIBUTE_CHARACTERS_MAX), match.index))?.[1] ??
          '';
      state = to[found] as State;
    }
    // In HTML, the dashes that open a comment may also end it.
    at = found === '<!--' ? end - 2 : end;
    const isQuoted = state === 'double' || state === 'single';
    if (isQuoted && at === literal.length) return { state, tag, attribute, isAtStart: true };
  }
}

/** Characters that XML cannot contain, even as references (XML 1.0 section 2.2). */
const notInXml = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u;

/**
 * Line ends and tabs become references: a parser turns a CR into an LF (XML 1.0 section 2.11), and each of them into a space
 * in an attribute (section 3.3.3). A reference is also correct in texts.
 */
const special = { utf8: /[&<>"'\t\n\r]/g, others: /[&<>"'\t\n\r]|[^\0-\x7e]/gu };

const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

const escapeMarkup = (value: string, charset: Charset): string =>
  value.replace(
    charset === 'utf8' ? special.utf8 : special.others,
    (each) => names[each] ?? `&#${each.codePointAt(0)};`,
  );

/** Within CDATA unchanged, or, if the value could end the section, escaped between two sections. */
const encodeCdata = (value: string, charset: Charset): string => {
  const isPlain = charset === 'utf8' ? /^[^\]<>\r]*$/ : /^[^\]<>\r\x7f-\uffff]*$/;
  return isPlain.test(value) ? value : `]]>${escapeMarkup(value, charset)}<![CDATA[`;
};

/** Comments and instructions have no escapes. */
const notIn = { comment: /[<>]|--|^-|-$/, instruction: /[<>?]/ };

const IN_SCRIPT =
  'must have no expressions in scripts, styles and other text that has no escapes, nor in attributes that hold them: a script can read the value from another attribute, such as data-value';

/** Attributes of HTML whose values are scripts, styles or documents. */
const scriptAttribute = /^(?:on.*|style|srcdoc)$/i;

/** URLs that run a script where a browser follows them. Browsers skip blanks and controls in them. */
const scriptUrl = /^(?:javascript:|vbscript:|data:(?!image\/(?!svg)))/i;

const refuseScripts = ({ state, attribute, isAtStart }: Position, place: string): ((value: string) => void) => {
  const isQuoted = state === 'double' || state === 'single';
  if (state === 'raw' || (isQuoted && scriptAttribute.test(attribute))) throw refuseValue(place, IN_SCRIPT);
  return (value) => {
    if (isQuoted && isAtStart && scriptUrl.test(value.replace(/[\0-\x20]/g, '')))
      throw refuseValue(place, 'must not begin an attribute with the URL of a script');
  };
};

const encoderIn = (position: Position, charset: Charset, place: string, isHtml: boolean): Encode => {
  const { state } = position;
  if (state === 'tag' || state === 'declaration')
    throw refuseValue(place, 'must have its expressions in texts and in quoted attributes');
  const checkScripts = isHtml ? refuseScripts(position, place) : undefined;
  return (value) => {
    checkScripts?.(value);
    if (notInXml.test(value)) throw refuseValue(place, 'must insert only characters that XML can hold');
    if (state === 'cdata') return encodeCdata(value, charset);
    if (state !== 'comment' && state !== 'instruction') return escapeMarkup(value, charset);
    if (notIn[state].test(value))
      throw refuseValue(place, 'must not insert text that would end a comment or an instruction');
    return encodableAt(charset, place)(value);
  };
};

/** Pauses after each slice. @throws invalidInput at the place. */
export function* splitMarkup(
  text: string,
  charset: Charset,
  place: string,
  references: References,
  isHtml: boolean,
): Slices<TextParts> {
  if (!text.includes('{{')) return [text];
  let position: Position = { state: 'text', tag: '', attribute: '', isAtStart: false };
  const parts: TextParts = [];
  for (const cut of cutText(text, place, references)) {
    if (cut.isExpression) {
      parts.push(createTextSlot(cut.text, place, references, encoderIn(position, charset, place, isHtml)));
      position = { ...position, isAtStart: false };
    } else {
      position = yield* positionAfter(cut.text, position, isHtml);
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
