import { describe, expect, test } from 'vitest';
import { attribute, html } from './html.ts';

describe('html', () => {
  test('escapes text and numbers in elements and attributes', () => {
    const hostile = `<script>alert("x")</script>'&`;
    expect(String(html`<p title="${hostile}">${hostile} ${7}</p>`)).toBe(
      '<p title="&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&#39;&amp;">&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&#39;&amp; 7</p>',
    );
  });

  test('puts in markup of its own as it is, lists item by item, and nothing for what is not there', () => {
    const items = ['a', '<b>'].map((item) => html`<li>${item}</li>`);
    const list = html`<ul>${items}${undefined}${null}${false}${true}</ul>`;
    expect(String(list)).toBe('<ul><li>a</li><li>&lt;b&gt;</li></ul>');
  });

  test('treats no foreign object as markup', () => {
    const forged = { toString: () => '<b>' } as unknown as string;
    expect(String(html`${forged}`)).toBe('&lt;b&gt;');
  });

  test('writes attributes without a value', () => {
    expect(String(html`<input${attribute('checked', true)}${attribute('disabled', false)}>`)).toBe('<input checked>');
  });
});
