// The frame of the API reference and the guides: the menu, the search field, and the links between both and the console.
import { html, type Html } from '../../platform/http/html.ts';
import { brandMark, pageOf } from '../../platform/http/pages.ts';

export const DOCS_PATH = '/docs';
export const DOCUMENT_PATH = '/openapi.json';
export const GUIDES_PATH = '/guides';

/** Longer searches find nothing. */
export const QUERY_LENGTH_MAX = 100;

/** URLs of the API and of the console, as the pages name them. */
export type Places = { serverUrl: string; consoleUrl: string | undefined };

/** A part of the menu; a name of '' has no line. */
export type Group = { name: string; links: readonly { href: string; title: string }[] };

/** One of the two sites. `count` says what a search counts. */
export type Site = {
  path: string;
  name: string;
  count: string;
  find: string;
  other: { href: string; title: string }[];
};

/** @returns the words that a search looks for, in lower case; none where the query is empty or too long. */
export const wordsOfQuery = (query: string): string[] =>
  query.slice(0, QUERY_LENGTH_MAX).toLowerCase().split(/\s+/).filter(Boolean);

/** Such as `1 operation`, which the script of the pages writes too. */
export const countLine = ({ count }: Site, number: number): Html =>
  html`<p class="quiet" role="status" data-count="${count}">${number} ${count}${number !== 1 && 's'}</p>`;

const navOf = ({ path, name }: Site, groups: readonly Group[], current: string): Html => {
  const link = (href: string, title: string): Html =>
    html`<a href="${href}"${href === current && html` aria-current="page"`}>${title}</a>`;
  return html`<nav aria-label="${name}">${link(path, 'Overview')}${groups.map(
    (group) =>
      html`${group.name !== '' && html`<p>${group.name}</p>`}${group.links.map(({ href, title }) => link(href, title))}`,
  )}</nav>`;
};

const headerOf = (site: Site, nav: Html, query: string, consoleUrl: string | undefined): Html =>
  html`<a class="skip" href="#main">Skip to the content</a>
<header class="top"><div class="side"><a href="${site.path}" class="brand">${brandMark} Strongroom</a>
<div class="wide-only">${nav}</div>
<details class="menu"><summary>Menu</summary>${nav}</details></div>
<div class="bar"><form action="${site.path}" class="find" role="search" aria-label="Search"><input type="search" name="q" value="${query}" maxlength="${QUERY_LENGTH_MAX}" aria-label="${site.find}" placeholder="Search" autocomplete="off" autocapitalize="off" spellcheck="false" data-find><kbd hidden>/</kbd></form>
<div class="who">${site.other.map(({ href, title }) => html`<a href="${href}">${title}</a>`)}${consoleUrl !== undefined && html`<a href="${consoleUrl}">Console</a>`}</div></div></header>`;

/** @param page.current the path of the page, which the menu marks. @param page.sampleUrl what the script replaces by the vault's own address. */
export const framedPage = (
  site: Site,
  page: {
    title: string;
    current: string;
    groups: readonly Group[];
    consoleUrl: string | undefined;
    sampleUrl: string;
    query?: string;
    main: Html;
  },
): string =>
  pageOf({
    title: page.title,
    header: headerOf(site, navOf(site, page.groups, page.current), page.query ?? '', page.consoleUrl),
    main: html`<div data-server="${page.sampleUrl}">${page.main}</div>`,
    isReference: true,
  });
