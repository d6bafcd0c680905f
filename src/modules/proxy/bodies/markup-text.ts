// Finds expressions in texts and quoted attributes of XML and HTML, and escapes values so that they cannot end either.
// One pass, which accepts markup that is not well-formed.
import type { References } from '../../tokens/expressions/expansion.ts';
import { JSON_SLICE_CHARACTERS } from '../../../platform/json/json-parser.ts';
import type { Slices } from '../../../platform/json/slices.ts';
import type { Charset } from './body-kind.ts';
import {
  createTextSlot,
  cutText,
  encodableAt,
  type Encode,
  refuseValue,
  type Slot,
  type TextParts,
  writeParts,
} from './text-parts.ts';

/** The position of a value. `tag` is within angle brackets and outside quotes. `raw` is text in which escapes are not read. */
type State = 'text' | 'tag' | 'double' | 'single' | 'cdata' | 'comment' | 'instruction' | 'declaration' | 'raw';

/** Position at the end of a literal. */
type Position = {
  state: State;
  /** The element that the tag opens; empty for an end tag. */
  tag: string;
  /** The attribute whose value is quoted here. */
  attribute: string;
  /** Index of the value of the attribute in the literal that has its quote. */
  from: number;
};

/**
 * The next delimiter of each state, and the state after it. XML and HTML end some of these differently: no unescaped value
 * contains a delimiter of either.
 */
const steps: Record<Exclude<State, 'raw' | 'tag'>, { next: RegExp; to: Record<string, State> }> = {
  text: {
    // At the end of a literal an expression follows: its value would become a tag name or the rest of `<!--`.
    next: /<(?:!--|!\[CDATA\[|[!?]|(?=[A-Za-z_:/\x80-\uffff]|$))/g,
    to: { '<!--': 'comment', '<![CDATA[': 'cdata', '<?': 'instruction', '<!': 'declaration', '<': 'tag' },
  },
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

/** The rest of a tag's name, which may have quotes. */
const tagRest = /\/?[^\t\n\f\r />]*/y;

/**
 * An attribute up to the quote of its value, or to the end of a value without quotes; or the end of the tag. A quote begins a
 * value directly after the equals sign only (HTML section 13.2.5.35).
 */
const nextInTag =
  /[\t\n\f\r /]*(?:(>)|([^\t\n\f\r />][^\t\n\f\r />=]*)(?:[\t\n\f\r ]*=[\t\n\f\r ]*(?:(["'])|[^\t\n\f\r >"'][^\t\n\f\r >]*)?)?)/y;

function* positionAfter(literal: string, before: Position, isHtml: boolean): Slices<Position> {
  let { state, tag, attribute } = before;
  let from = 0;
  let pauseAt = JSON_SLICE_CHARACTERS;
  for (let at = 0; ;) {
    if (at >= pauseAt) {
      yield;
      pauseAt = at + JSON_SLICE_CHARACTERS;
    }
    if (state === 'tag') {
      nextInTag.lastIndex = at;
      const match = nextInTag.exec(literal);
      if (match === null) return { state, tag, attribute, from };
      const [, end, name = '', quote] = match;
      at = nextInTag.lastIndex;
      if (end !== undefined) state = isHtml && rawEnds.has(tag) ? 'raw' : 'text';
      else if (quote !== undefined) {
        state = quote === '"' ? 'double' : 'single';
        attribute = name;
        from = at;
      }
    } else {
      const { next, to } = state === 'raw' ? { next: rawEnds.get(tag) as RegExp, to: undefined } : steps[state];
      next.lastIndex = at;
      const match = next.exec(literal);
      if (match === null) return { state, tag, attribute, from };
      const [found] = match;
      // In HTML, the dashes that open a comment may also end it.
      at = found === '<!--' ? next.lastIndex - 2 : next.lastIndex;
      if (found === '<') {
        tagName.lastIndex = at;
        tag = tagName.exec(literal)?.[1]?.toLowerCase() ?? '';
        tagRest.lastIndex = at;
        tagRest.exec(literal);
        at = tagRest.lastIndex;
      } else if (to === undefined) tag = '';
      state = to === undefined ? 'tag' : (to[found] as State);
    }
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
const notIn = { comment: /[<>]|--|^-|-$/, instruction: /[<>?"']/ };

const IN_SCRIPT =
  'must have no expressions in scripts, styles and other text that has no escapes, nor in attributes that hold them: a script can read the value from another attribute, such as data-value';

/** Attributes of HTML whose values are scripts, styles or documents. */
const scriptAttribute = /^(?:on.*|style|srcdoc)$/i;

const isQuoted = ({ state }: Position): boolean => state === 'double' || state === 'single';

const refuseScripts = (position: Position, place: string): void => {
  if (position.state === 'raw' || (isQuoted(position) && scriptAttribute.test(position.attribute)))
    throw refuseValue(place, IN_SCRIPT);
};

/** References without a semicolon count, too. Other names stand for no character of a script's URL. */
const reference = /&(?:#(?:x([\da-f]+)|(\d+));?|(amp|colon|Tab|NewLine|nbsp);?)/gi;

const named: Record<string, string> = { amp: '&', colon: ':', tab: '\t', newline: '\n', nbsp: ' ' };

const CODE_POINT_MAX = 0x10ffff;

const withoutReferences = (text: string): string =>
  text.replace(reference, (_all, hex?: string, decimal?: string, name?: string) => {
    if (name !== undefined) return named[name.toLowerCase()] ?? '';
    const code = hex === undefined ? Number(decimal) : parseInt(hex, 16);
    return code <= CODE_POINT_MAX ? String.fromCodePoint(code) : '';
  });

/** URLs that run a script where a browser follows them. Attributes without URLs are no exception: a script may use any as one. */
const scriptUrl = /^ ?(?:javascript:|vbscript:|data:(?!image\/(?!svg)))/i;

/** An item of a list: `values` of `animate`, `content` of `meta`, which begins with a number of seconds. */
const scriptUrlInList = /(?:^[\d. ]*|[;,=] ?['"]? ?)(?:javascript:|vbscript:|data:(?!image\/(?!svg)))/i;

const listAttribute = /^(?:values|content)$/i;

/** Browsers skip blanks and controls in URLs. */
const runsScript = (name: string, value: string): boolean => {
  const read = withoutReferences(value)
    .replace(/[\p{Cc}\p{Cf}]/gu, '')
    .replace(/\p{Z}+/gu, ' ');
  return (listAttribute.test(name) ? scriptUrlInList : scriptUrl).test(read);
};

/** The value of an attribute of HTML: decided on as a whole, because a URL may stand in several parts. */
const wholeAttribute = (name: string, parts: TextParts, place: string): Slot => ({
  place,
  write: (expansion) => {
    const text = writeParts(parts, expansion);
    if (runsScript(name, text)) throw refuseValue(place, 'must not make an attribute the URL of a script');
    return text;
  },
});

const encoderIn = (position: Position, charset: Charset, place: string, isHtml: boolean): Encode => {
  const { state } = position;
  if (state === 'tag' || state === 'declaration')
    throw refuseValue(place, 'must have its expressions in texts and in quoted attributes');
  if (isHtml) refuseScripts(position, place);
  // The namespace decides whether the document has scripts.
  else if (isQuoted(position) && /^xmlns(?::|$)/.test(position.attribute))
    throw refuseValue(place, 'must have no expressions in the names of namespaces');
  return (value) => {
    if (notInXml.test(value)) throw refuseValue(place, 'must insert only characters that XML can hold');
    if (state === 'cdata') return encodeCdata(value, charset);
    if (state !== 'comment' && state !== 'instruction') return escapeMarkup(value, charset);
    if (notIn[state].test(value))
      throw refuseValue(place, 'must not insert text that would end a comment or an instruction');
    return encodableAt(charset, place)(value);
  };
};

/** Namespaces whose elements run scripts in a browser, whatever type of XML they have. */
const scriptNamespace = /http:\/\/www\.w3\.org\/(?:1999\/xhtml|2000\/svg|1998\/Math\/MathML)/;

/** An entity or a default of an attribute may name such a namespace in parts. */
const mayHaveScripts = (xml: string): boolean =>
  /<!(?:ENTITY|ATTLIST)/.test(xml) || (xml.includes('xmlns') && scriptNamespace.test(withoutReferences(xml)));

/** Pauses after each slice. @throws invalidInput at the place. */
export function* splitMarkup(
  text: string,
  charset: Charset,
  place: string,
  references: References,
  isHtmlType: boolean,
): Slices<TextParts> {
  if (!text.includes('{{')) return [text];
  const isHtml = isHtmlType || mayHaveScripts(text);
  let position: Position = { state: 'text', tag: '', attribute: '', from: 0 };
  const parts: TextParts = [];
  /** The value of an attribute that has not ended. */
  let attribute: TextParts | undefined;
  let name = '';
  for (const cut of cutText(text, place, references)) {
    if (cut.isExpression) {
      const slot = createTextSlot(cut.text, place, references, encoderIn(position, charset, place, isHtml));
      (attribute ?? parts).push(slot);
      continue;
    }
    const quote = position.state === 'double' ? '"' : "'";
    name = position.attribute;
    position = yield* positionAfter(cut.text, position, isHtml);
    let done = 0;
    if (attribute) {
      const end = cut.text.indexOf(quote);
      done = end === -1 ? cut.text.length : end;
      attribute.push(cut.text.slice(0, done));
      if (end === -1) continue;
      parts.push(wholeAttribute(name, attribute, place));
      attribute = undefined;
    }
    if (isHtml && isQuoted(position)) attribute = [cut.text.slice(position.from)];
    parts.push(cut.text.slice(done, attribute ? position.from : undefined));
  }
  if (attribute) parts.push(wholeAttribute(position.attribute, attribute, place));
  return parts;
}
