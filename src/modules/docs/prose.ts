// Writes the descriptions of the OpenAPI document as HTML: paragraphs, `code` and links. Everything else in them is text.
import { html, type Html } from '../../platform/http/html.ts';

/** Code between backticks, or an address of the web, which ends before the mark that ends its sentence. */
const MARKS = /`([^`\n]+)`|(https:\/\/[\w./~%-]*[\w/](?:#[\w-]+)?)/g;

/** A text of one line. */
export const inline = (text: string): Html => {
  const parts: Html[] = [];
  let end = 0;
  for (const { 0: mark, 1: code, index } of text.matchAll(MARKS)) {
    parts.push(
      html`${text.slice(end, index)}${code === undefined ? html`<a href="${mark}">${mark}</a>` : html`<code>${code}</code>`}`,
    );
    end = index + mark.length;
  }
  return html`${parts}${text.slice(end)}`;
};

export const prose = (text: string): Html =>
  html`${text
    .split(/\n{2,}/)
    .filter((part) => part !== '')
    .map((part) => html`<p>${inline(part)}</p>\n`)}`;
