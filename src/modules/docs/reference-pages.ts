// The pages of the API reference: an overview with all operations, and a page for each chapter. All are made of the OpenAPI document.
import { html, type Html } from '../../platform/http/html.ts';
import {
  countLine,
  DOCS_PATH,
  DOCUMENT_PATH,
  framedPage,
  GUIDES_PATH,
  type Places,
  type Site,
  wordsOfQuery,
} from './frame.ts';
import { methodBadge, operationBlock } from './operation-view.ts';
import { inline, prose } from './prose.ts';
import { type Chapter, nodeOf, type Operation, type Reference, textOf } from './reference.ts';
import { anchorOf, namesUsedBy, schemaBlock } from './schema-view.ts';

const site: Site = {
  path: DOCS_PATH,
  name: 'API reference',
  count: 'operation',
  find: 'Search the reference: a name, a path, an attribute',
  other: [
    { href: GUIDES_PATH, title: 'Guides' },
    { href: DOCUMENT_PATH, title: 'OpenAPI' },
  ],
};

const pathOf = ({ slug }: Chapter): string => `${DOCS_PATH}/${slug}`;

const referencePage = (
  { groups }: Reference,
  { serverUrl, consoleUrl }: Places,
  page: { title: string; current: string; query?: string; main: Html },
): string =>
  framedPage(site, {
    ...page,
    consoleUrl,
    sampleUrl: serverUrl,
    groups: groups.map(({ name, chapters }) => ({
      name,
      links: chapters.map((chapter) => ({ href: pathOf(chapter), title: chapter.name })),
    })),
  });

/** The words by which a search finds an operation, in lower case. */
const wordsOf = (operation: Operation, { resolve }: Reference): string => {
  const { id, method, path, summary, description, permissions = [], parameters, body } = operation;
  const names = [
    ...parameters.map(({ name }) => textOf(name)),
    ...(body === undefined ? [] : Object.keys(nodeOf(resolve(body.schema)['properties']))),
  ];
  return [id, method, path, summary, description, ...permissions, ...names].join(' ').toLowerCase();
};

type Row = { operation: Operation; words: string };

const operationItem = ({ method, path, summary }: Operation, href: string, more?: Html): Html =>
  html`<li${more}>${methodBadge(method)} <a href="${href}">${summary}</a> <code>${path}</code></li>\n`;

/** A chapter of the overview. What a search does not find is hidden: the script shows it while one types another. */
const overviewSection = (chapter: Chapter, rows: readonly Row[], isFound: (row: Row) => boolean): Html =>
  html`<section class="card" data-chapter${!rows.some(isFound) && html` hidden`}><h2><a href="${pathOf(chapter)}">${chapter.name}</a></h2>
<p>${inline(chapter.description)}</p>
<ul class="operations">${rows.map((row) =>
    operationItem(
      row.operation,
      `${pathOf(chapter)}#${row.operation.id}`,
      html` data-words="${row.words}"${!isFound(row) && html` hidden`}`,
    ),
  )}</ul></section>\n`;

/** The overview, with all operations or those that a search finds. */
export const createOverview = (reference: Reference, places: Places): ((query: string) => string) => {
  const chapters = reference.groups.flatMap((group) => group.chapters);
  const sections = chapters.map((chapter) => ({
    chapter,
    rows: chapter.operations.map((operation) => ({ operation, words: wordsOf(operation, reference) })),
  }));
  return (query) => {
    const words = wordsOfQuery(query);
    const isFound = (row: Row): boolean => words.every((word) => row.words.includes(word));
    const count = sections.flatMap(({ rows }) => rows).filter(isFound).length;
    return referencePage(reference, places, {
      title: 'API reference',
      current: DOCS_PATH,
      query,
      main: html`<div class="heading"><h1>API reference</h1><p class="quiet">Version ${reference.version}</p></div>
${words.length === 0 && html`<section class="card">${prose(reference.description)}</section>`}
${countLine(site, count)}
${sections.map(({ chapter, rows }) => overviewSection(chapter, rows, isFound))}`,
    });
  };
};

/** The key stays in the memory of the page. It has no form and no name, so that no browser keeps or sends it. */
const keyCard = html`<section class="card" data-key-card hidden><h2>Try it</h2>
<div class="search"><input class="secret" aria-label="API key" placeholder="API key" autocomplete="off" autocapitalize="off" spellcheck="false" data-key><button type="button" data-use-key>Use</button></div>
<p class="quiet" role="status" data-key-state>Paste an API key to try operations on this vault. Only this page has it, until you leave or reload.</p></section>`;

const schemasBlock = (chapter: Chapter, { resolve }: Reference): Html =>
  html`${namesUsedBy(chapter.operations, resolve).map(
    (name) =>
      html`<section class="card" id="${anchorOf(name)}"><h3>${name}</h3>${schemaBlock(resolve({ $ref: `#/components/schemas/${name}` }))}</section>\n`,
  )}`;

export const chapterPage = (reference: Reference, places: Places, chapter: Chapter): string =>
  referencePage(reference, places, {
    title: `${chapter.name}: API reference`,
    current: pathOf(chapter),
    main: html`<h1>${chapter.name}</h1>
<p>${inline(chapter.description)}</p>
${chapter.links.length > 0 && html`<p class="quiet">${chapter.links.map(({ title, url }, at) => html`${at > 0 && ' · '}<a href="${url}">${title}</a>`)}</p>`}
<ul class="operations card">${chapter.operations.map((operation) => operationItem(operation, `#${operation.id}`))}</ul>
${keyCard}
${chapter.operations.map((operation) => operationBlock(operation, reference, places.serverUrl))}
<h2 id="schemas">Schemas</h2>
${schemasBlock(chapter, reference)}`,
  });
