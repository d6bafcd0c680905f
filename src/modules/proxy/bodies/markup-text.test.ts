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
    ['<?x y="{{ t }}"?>', '" z="'],
    ["<?x y='{{ t }}'?>", "'"],
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

describe('an attribute of HTML', () => {
  const SCRIPT = 'javascript:alert(1)';
  const html = (body: string, values: Record<string, Json>, type = 'text/html') => sendBody(type, body, values);
  const isRefused = (body: string, values: Record<string, Json>, type?: string) =>
    expect(
      problemsOf(() => html(body, values, type)),
      body,
    ).toEqual({ body: [expect.stringMatching(/^must /)] });

  test.each([
    '<a href="{{ t }}">',
    '<a href=" {{ t }}">',
    '<a href="\n\t{{ t }}">',
    '<a href="&#10;&Tab;&nbsp;{{ t }}">',
    "<a href='{{ e }}{{ t }}'>",
    '<a href="{{ u }}{{ v }}">',
    '<a href="ja{{ w }}">',
    '<a href="java{{ v }}">',
    '<a href="javascript{{ x }}">',
    '<a href="&#10{{ y }}">',
    `<a href=${' '.repeat(300)}"{{ t }}">`,
    '<a title=">" x href = "{{ t }}">',
    '<animate attributeName="href" values="x;{{ t }}"/>',
    '<animate values="x; {{ u }}{{ v }}"/>',
    '<meta http-equiv="refresh" content="0;url={{ t }}">',
    '<meta http-equiv="refresh" content="0; URL=\'{{ t }}\'">',
    '<meta http-equiv="refresh" content="0 {{ t }}">',
    '<iframe src="{{ d }}">',
    '<x-y z="{{ t }}">',
  ])('takes no value that makes it the URL of a script: %s', (body) => {
    const values = {
      t: SCRIPT,
      e: '',
      u: 'java',
      v: 'script:alert(1)',
      w: 'vascript:f()',
      x: ':f()',
      y: '6;avascript:f()',
    };
    isRefused(body, { ...values, d: 'data:text/html,<script>alert(1)</script>' });
  });

  test.each([
    '<a href="javascript:f(\'{{ t }}\')">',
    "<a href=' javascript&colon;f({{ t }})'>",
    '<a href="&#106;avascript:f({{ t }})">',
    '<a href=javascript:f("{{ t }}")>',
    '<a x=y"{{ t }}">',
    '<a="{{ t }}">',
    '<a "{{ t }}">',
    '<a x"="{{ t }}" "{{ t }}">',
    `<a onclick=${' '.repeat(120)}"f('{{ t }}')">`,
    `<a onclick${'\n'.repeat(500)}= "f('{{ t }}')">`,
  ])('that is a script, or has no quotes, takes no value: %s', (body) => {
    isRefused(body, { t: 'v' });
    isRefused(body, { t: "');alert(1)//" });
  });

  test.each([
    '<a href="https://a.example/?next={{ t }}" title="learn {{ t }}">{{ t }}</a>',
    '<a title="about javascript: {{ t }}"><img src="data:image/png;base64,{{ t }}">',
    '<input value="note; data: {{ t }}" placeholder="a, javascript: {{ t }}">',
    '<a href="{{ t }}/{{ t }}" x=y data-value=\'{{ t }}\'>',
    '<a href="/?x=1&amp;y={{ t }}',
  ])('that is none takes values as before: %s', (body) => {
    expect(html(body, { t: 'v' })).toBe(body.replaceAll('{{ t }}', 'v'));
  });

  test.each(['application/xml', 'text/xml', 'application/rss+xml'])(
    'of SVG and XHTML follows the rule in %s',
    (type) => {
      for (const namespace of [
        'http://www.w3.org/2000/svg',
        'http://www.w3.org/1999/xhtml',
        'http&#58;//www.w3.org/2000/svg',
        'http://www.w3.org/1998/Math/MathML',
      ]) {
        const around = (inner: string) => `<r xmlns:s="${namespace}">${inner}</r>`;
        isRefused(around('<s:script>f("{{ t }}")</s:script>'), { t: 'v' }, type);
        isRefused(around('<s:g onload="f({{ t }})"/>'), { t: 'v' }, type);
        isRefused(around('<s:a href="{{ t }}"/>'), { t: SCRIPT }, type);
        expect(html(around('<s:g id="{{ t }}">{{ t }}</s:g>'), { t: 'v' }, type)).toContain('<s:g id="v">v</s:g>');
      }
      isRefused('<r xmlns="{{ t }}"><script>1</script></r>', { t: 'v' }, type);
      const declared = '<!DOCTYPE r [<!ENTITY n "http://www.w3.org/2000/"><!ENTITY m "svg">]>';
      isRefused(`${declared}<r xmlns:s="&n;&m;"><s:script>{{ t }}</s:script></r>`, { t: 'v' }, type);
      const other = '<r script="{{ t }}"><script>{{ t }}</script></r>';
      expect(html(other, { t: SCRIPT }, type)).toBe(other.replaceAll('{{ t }}', SCRIPT));
    },
  );
});
