// Writes Markdown as HTML. Only the parser is a library's: every text goes through our own templates, which escape it, and a part
// that they do not know is an error, so that no markup of a page reaches a browser.
import { lexer, type Token, type Tokens } from 'marked';
import { html, type Html } from '../../platform/http/html.ts';

/** Targets of links and pictures of a page. */
export type Targets = { link(href: string): string; picture(href: string): string };

/** The languages that stand in a row as samples of one step, with the names of their tabs. */
const tabs: Record<string, string> = { sh: 'curl', js: 'JavaScript', python: 'Python' };

/** @returns a heading without its marks. */
export const plainText = (markdown: string): string =>
  markdown.replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/[`*]/g, '');

/** @returns a function that makes the anchor of a heading as GitHub does: the second of a name ends with -1. */
export const createAnchors = (): ((heading: string) => string) => {
  const seen = new Map<string, number>();
  return (heading) => {
    const name = plainText(heading)
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-');
    const count = seen.get(name) ?? 0;
    seen.set(name, count + 1);
    return count === 0 ? name : `${name}-${count}`;
  };
};

const unknown = ({ type, raw }: Token): never => {
  throw new Error(`A page has "${type}", which the guides do not show: ${raw.slice(0, 60)}`);
};

const inlineOf = (tokens: readonly Token[] | undefined, targets: Targets): Html =>
  html`${(tokens ?? []).map((token) => inlineToken(token, targets))}`;

const inlineToken = (token: Token, targets: Targets): Html => {
  switch (token.type) {
    case 'text':
      return 'tokens' in token && token.tokens ? inlineOf(token.tokens, targets) : html`${token['text'] as string}`;
    case 'escape':
      return html`${(token as Tokens.Escape).text}`;
    case 'codespan':
      return html`<code>${(token as Tokens.Codespan).text}</code>`;
    case 'strong':
      return html`<strong>${inlineOf(token.tokens, targets)}</strong>`;
    case 'em':
      return html`<em>${inlineOf(token.tokens, targets)}</em>`;
    case 'link':
      return html`<a href="${targets.link((token as Tokens.Link).href)}">${inlineOf(token.tokens, targets)}</a>`;
    case 'image':
      return html`<img src="${targets.picture((token as Tokens.Image).href)}" alt="${(token as Tokens.Image).text}" loading="lazy">`;
    case 'checkbox':
      return html`☐ `;
    default:
      return unknown(token);
  }
};

/** What the blocks of a page share. Names of boxes are counted, since a page may have many of one heading. */
type Page = { targets: Targets; anchor: (heading: string) => string; heading: string; boxes: number };

const boxName = (page: Page, kind: string): string => {
  page.boxes += 1;
  return `${kind} ${page.boxes}: ${page.heading}`;
};

/** What people copy has a button, which the script adds. */
const codeBox = (page: Page, kind: string, { text, lang }: Tokens.Code): Html => {
  const isOutput = ['json', 'text', '', undefined].includes(lang);
  return html`<pre tabindex="0" role="region" aria-label="${boxName(page, kind)}"${isOutput && lang !== 'json' && html` class="drawing"`}><code data-sample${!isOutput && html` data-copy="Copy"`}>${text}</code></pre>\n`;
};

/** One is open at a time, without script. */
const tabbed = (page: Page, samples: readonly Tokens.Code[]): Html => {
  const name = `samples-${page.boxes}`;
  return html`<div class="samples">${samples.map((sample, at) => {
    const language = tabs[sample.lang ?? ''] as string;
    return html`<details name="${name}" data-language="${language}"${at === 0 && html` open`}><summary>${language}</summary>${codeBox(page, language, sample)}</details>`;
  })}</div>\n`;
};

const tableOf = (page: Page, { header, rows }: Tokens.Table): Html => {
  const cell = ({ tokens }: Tokens.TableCell): Html => html`<td>${inlineOf(tokens, page.targets)}</td>`;
  // An empty heading names nothing.
  const heading = (each: Tokens.TableCell): Html =>
    each.text === '' ? html`<td></td>` : html`<th scope="col">${inlineOf(each.tokens, page.targets)}</th>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${boxName(page, 'Table')}"><table><thead><tr>${header.map(heading)}</tr></thead>
<tbody>${rows.map((row) => html`<tr>${row.map(cell)}</tr>\n`)}</tbody></table></div>\n`;
};

const listOf = (page: Page, { ordered, start, items }: Tokens.List): Html => {
  const content = items.map(({ tokens }) => html`<li>${blocksOf(page, tokens)}</li>\n`);
  if (!ordered) return html`<ul>${content}</ul>\n`;
  return html`<ol${start !== 1 && html` start="${start}"`}>${content}</ol>\n`;
};

const headingOf = (page: Page, { depth, text, tokens }: Tokens.Heading): Html => {
  const content = inlineOf(tokens, page.targets);
  page.heading = plainText(text);
  const anchor = page.anchor(text);
  const link = html`<a href="#${anchor}">${content}</a>`;
  if (depth === 1) return html`<h1 id="${anchor}">${content}</h1>\n`;
  if (depth === 2) return html`<h2 id="${anchor}">${link}</h2>\n`;
  return html`<h3 id="${anchor}">${link}</h3>\n`;
};

const blockOf = (page: Page, token: Token): Html => {
  switch (token.type) {
    case 'space':
      return html``;
    case 'heading':
      return headingOf(page, token as Tokens.Heading);
    case 'paragraph':
      return html`<p>${inlineOf(token.tokens, page.targets)}</p>\n`;
    case 'list':
      return listOf(page, token as Tokens.List);
    case 'table':
      return tableOf(page, token as Tokens.Table);
    case 'code':
      return codeBox(page, 'Code', token as Tokens.Code);
    case 'html':
      // A mark of a generated table.
      return /^<!--[^<>]*-->\s*$/.test(token.raw) ? html`` : unknown(token);
    default:
      return inlineToken(token, page.targets);
  }
};

/** Blocks in order; samples in a row, each of another language, become one block with a tab for each. */
const blocksOf = (page: Page, given: readonly Token[]): Html => {
  const tokens = given.filter(({ type }) => type !== 'space');
  const blocks: Html[] = [];
  const isSample = (token: Token | undefined): token is Tokens.Code =>
    token?.type === 'code' && Object.hasOwn(tabs, (token as Tokens.Code).lang ?? '');
  for (let at = 0; at < tokens.length; at += 1) {
    const row: Tokens.Code[] = [];
    for (let next = tokens[at]; isSample(next); next = tokens[at + row.length]) {
      if (row.some(({ lang }) => lang === next?.['lang'])) break;
      row.push(next);
    }
    if (row.length > 1) blocks.push(tabbed(page, row));
    else blocks.push(blockOf(page, tokens[at] as Token));
    at += Math.max(0, row.length - 1);
  }
  return html`${blocks}`;
};

/** @param markdown of our own files. @throws Error for raw HTML and other parts that the pages do not have. */
export const renderMarkdown = (markdown: string, targets: Targets): Html =>
  blocksOf({ targets, anchor: createAnchors(), heading: '', boxes: 0 }, lexer(markdown));
