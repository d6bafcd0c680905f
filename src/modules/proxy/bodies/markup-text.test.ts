// Tests XML and HTML bodies: a value is always text, never markup.
import { XMLParser, XMLValidator } from 'fast-xml-parser';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { awkward, problemsOf, send, sendBody } from '../../../../test/support/expansion.ts';
import type { Json } from '../../../platform/json/json.ts';

const t = { t: 'v', u: 'w' };

describe('XML and HTML', () => {
  const readXml = (text: string): unknown => {
    expect(XMLValidator.validate(text)).toBe(true);
    const options = { ignoreAttributes: false, attributeNamePrefix: '', htmlEntities: true, trimValues: false };
    return new XMLParser({ ...options, parseTagValue: false, parseAttributeValue: false }).parse(text);
  };

  test.each([
    ['<a>{{ t }}</a>', 'v', '<a>v</a>'],
    ['<a b="{{ t }}" c=\'{{ t }}\'/>', `<&"'>`, `<a b="&lt;&amp;&quot;&#39;&gt;" c='&lt;&amp;&quot;&#39;&gt;'/>`],
    ['<a>{{ t }}</a>', 'a\t\r\nb', '<a>a&#9;&#13;&#10;b</a>'],
    ['<a>{{ t }}</a>', { a: 1 }, '<a>{&quot;a&quot;:1}</a>'],
    ['<a><![CDATA[x {{ t }} y]]></a>', '1 & 2', '<a><![CDATA[x 1 & 2 y]]></a>'],
    ['<a><![CDATA[x {{ t }}]]></a>', ']]><b/>', '<a><![CDATA[x ]]>]]&gt;&lt;b/&gt;<![CDATA[]]></a>'],
    ['<a><![CDATA[]]{{ t }}]]></a>', '>', '<a><![CDATA[]]]]>&gt;<![CDATA[]]></a>'],
    ['<a><![CDATA[<b ]] >]]>{{ t }}<![CDATA[]]></a>', '<', '<a><![CDATA[<b ]] >]]>&lt;<![CDATA[]]></a>'],
    ['<?x <a ?><a>{{ t }}<?y?></a>', '<', '<?x <a ?><a>&lt;<?y?></a>'],
    ['<!-- {{ t }} --><a/>', 'v-w', '<!-- v-w --><a/>'],
    ['<?x {{ t }}?><a/>', 'v', '<?x v?><a/>'],
    ['<a b=">{{ t }}">{{ t }}</a >{{ t }}', '"', '<a b=">&quot;">&quot;</a >&quot;'],
    ["<a b='\"'>{{ t }}</a>", '"', "<a b='\"'>&quot;</a>"],
    ['<p>1 < 2 and {{ t }} <3', '<', '<p>1 < 2 and &lt; <3'],
    ['<!doctype html><p>{{ t }}', '<', '<!doctype html><p>&lt;'],
    ['<!-->{{ t }}<!-- -->', '<!--', '<!-->&lt;!--<!-- -->'],
    ['<!--->{{ t }}', '<b>', '<!--->&lt;b&gt;'],
    ['<!-- --!>{{ t }}', '<b>', '<!-- --!>&lt;b&gt;'],
    ["<a>{{ t | replace: 'v', '<' }}</a>", 'v', '<a>&lt;</a>'],
  ])('%s with %j is %s', (body, value, expected) => {
    expect(sendBody('text/html', body, { t: value as Json })).toBe(expected);
  });

  test.each([
    '<{{ t }}>',
    '</{{ t }}>',
    '<a{{ t }}>',
    '<a {{ t }}="x">',
    '<a b={{ t }}>',
    '<a b="x" {{ t }}>',
    '<!{{ t }}',
    '<!-{{ t }}',
    '<!DOCTYPE a "{{ t }}">',
    '<![CDATA{{ t }}',
    '<x:a {{ t }}',
    '<é {{ t }}',
  ])('%s is refused: a value is no markup', (body) => {
    expect(problemsOf(() => sendBody('text/xml', body, t))).toEqual({
      body: ['must have its expressions in texts and in quoted attributes'],
    });
  });

  test.each([
    ['<!--{{ t }}-->', '-->'],
    ['<!--{{ t }}-->', '>'],
    ['<!--{{ t }}-->', '->'],
    ['<!-- -{{ t }} -->', '-'],
    ['<!-- {{ t }}- -->', 'a-'],
    ['<!-- {{ t }} -->', 'a--b'],
    ['<!-- {{ t }} -->', '<b'],
    ['<?x {{ t }}?>', '?>'],
    ['<?x {{ t }}?>', 'a?'],
    ['<?x {{ t }}?>', '<'],
  ])('%s with %j is refused: nothing can be escaped there', (body, value) => {
    expect(problemsOf(() => sendBody('text/xml', body, { t: value }))).toEqual({
      body: ['must not insert text that would end a comment or an instruction'],
    });
  });

  test.each(['\0', '\x01', '\x0b', '\x1f', '\ufffe', '\uffff', '\ud800', 'a\udc00b'])(
    '%j cannot be written in XML, and is refused',
    (value) => {
      for (const body of ['<a>{{ t }}</a>', '<a b="{{ t }}"/>', '<![CDATA[{{ t }}]]>', '<!-- {{ t }} -->'])
        expect(problemsOf(() => sendBody('text/xml', body, { t: value }))).toEqual({
          body: ['must insert only characters that XML can hold'],
        });
    },
  );

  test('a value reads back as what it is, in every place, and nothing else changes (property)', () => {
    const value = awkward.filter((each) => /^[\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]*$/u.test(each));
    fc.assert(
      fc.property(value, fc.constantFrom('utf-8', 'windows-1252'), (given, charset) => {
        const template = `<r a="x{{ t }}" b='{{ t }}y'><c>x{{ t }}y</c><d>x<![CDATA[{{ t }}]]>y</d></r>`;
        const { body } = send({ type: `text/xml; charset=${charset}`, body: template }, { t: given });
        const text = (body as Buffer).toString(charset === 'utf-8' ? 'utf8' : 'latin1');
        expect(readXml(text)).toEqual({ r: { a: `x${given}`, b: `${given}y`, c: `x${given}y`, d: `x${given}y` } });
      }),
      { numRuns: 2000 },
    );
  });

  test('a document is in the encoding that it declares', () => {
    const declared = (encoding: string, rest: string) => `<?xml version="1.0" encoding='${encoding}' ?>${rest}`;
    const latin1 = Buffer.from(declared('ISO-8859-1', '<a b="é">{{ t }}</a><!--{{ u }}-->'), 'latin1');
    const { body } = send({ type: 'application/xml', body: latin1 }, { t: 'é€', u: 'é' });
    expect((body as Buffer).toString('latin1')).toBe(declared('ISO-8859-1', '<a b="é">&#233;&#8364;</a><!--é-->'));
    const other = declared('Shift_JIS', '<a>{{ t }}</a>');
    expect(sendBody('application/xml', other, { t: 'é' })).toBe(declared('Shift_JIS', '<a>&#233;</a>'));
    expect(sendBody('application/xml', `\ufeff${declared('UTF-8', '<a>{{ t }}</a>')}`, { t: 'é' })).toContain(
      '<a>é</a>',
    );
  });
});
