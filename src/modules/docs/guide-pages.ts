// The pages of the guides: an overview by role, the pages themselves, what a search finds, and a list for programs (llms.txt).
import { html, type Html } from '../../platform/http/html.ts';
import { countLine, DOCS_PATH, framedPage, type Group, GUIDES_PATH, type Site } from './frame.ts';
import { type Guide, type Guides, readGuide, targetsOf } from './guide-files.ts';
import { type Found, RESULTS_MAX } from './guide-search.ts';
import { createAnchors, plainText, renderMarkdown } from './markdown.ts';

export const LLMS_PATH = '/llms.txt';

/** The address of the vault in the samples of the guides. The script puts that of this vault in its place. */
const SAMPLE_URL = 'http://127.0.0.1:8080';

/** From how many sections on a page begins with their list. */
const CONTENTS_FROM = 5;

const site: Site = {
  path: GUIDES_PATH,
  name: 'Guides',
  count: 'page',
  find: 'Search the guides',
  other: [{ href: DOCS_PATH, title: 'API reference' }],
};

const groupsOf = ({ byRole }: Guides): Group[] =>
  byRole.map(({ role, guides }) => ({
    name: role.name,
    links: guides.map(({ path, title }) => ({ href: path, title })),
  }));

type Frame = { guides: Guides; consoleUrl: string | undefined };

const guidesPage = (
  { guides, consoleUrl }: Frame,
  page: { title: string; current: string; query?: string; main: Html },
): string => framedPage(site, { ...page, groups: groupsOf(guides), consoleUrl, sampleUrl: SAMPLE_URL });

/** The headings of a page below its title. */
const headingsOf = (markdown: string): { text: string; anchor: string; depth: number }[] => {
  const anchorOf = createAnchors();
  return [...markdown.replaceAll(/^```[\s\S]*?^```$/gm, '').matchAll(/^(#+) (.*)$/gm)].map(
    ([, marks = '', text = '']) => ({ text: plainText(text), anchor: anchorOf(text), depth: marks.length }),
  );
};

const overviewItem = (guide: Guide): Html => {
  const words = [guide.title, guide.summary, ...headingsOf(readGuide(guide)).map(({ text }) => text)];
  return html`<li data-words="${words.join(' ').toLowerCase()}"><a href="${guide.path}">${guide.title}</a> <span class="quiet">${guide.summary}</span></li>\n`;
};

export const guidesOverview = (frame: Frame): string =>
  guidesPage(frame, {
    title: 'Guides',
    current: GUIDES_PATH,
    main: html`<h1>Guides</h1>
${countLine(site, frame.guides.byRole.flatMap(({ guides }) => guides).length)}
${frame.guides.byRole.map(
  ({ role, guides }) => html`<section class="card" data-chapter><h2>${role.name}</h2>
<p>${role.summary}</p>
<ul class="operations">${guides.map(overviewItem)}</ul></section>\n`,
)}
<p class="quiet">For programs: <a href="${LLMS_PATH}">llms.txt</a>, and each page as Markdown with <code>.md</code> after its address.</p>`,
  });

export const foundPage = (frame: Frame, query: string, found: readonly Found[]): string =>
  guidesPage(frame, {
    title: 'Search',
    current: '',
    query,
    main: html`<h1>Search</h1>
<p class="quiet" role="status">${
      found.length === 0
        ? 'Nothing has all these words.'
        : `${found.length === RESULTS_MAX ? 'The first ' : ''}${found.length} ${found.length === 1 ? 'section' : 'sections'}`
    }</p>
${
  found.length > 0 &&
  html`<ul class="operations card">${found.map(
    ({ guide, anchor, heading, excerpt }) =>
      html`<li><a href="${guide.path}#${anchor}">${heading === guide.title ? heading : `${guide.title}: ${heading}`}</a><br><span class="quiet">${excerpt}</span></li>\n`,
  )}</ul>`
}
<p><a href="${GUIDES_PATH}">All guides</a></p>`,
  });

const contentsOf = (markdown: string): Html | undefined => {
  const headings = headingsOf(markdown).filter(({ depth }) => depth === 2);
  if (headings.length < CONTENTS_FROM) return undefined;
  return html`<details class="contents"><summary>On this page</summary><ul>${headings.map(({ text, anchor }) => html`<li><a href="#${anchor}">${text}</a></li>`)}</ul></details>\n`;
};

/** The page after this one in the menu. */
const nextOf = ({ byRole }: Guides, guide: Guide): Guide | undefined => {
  const listed = byRole.flatMap(({ guides }) => guides);
  const at = listed.indexOf(guide);
  return at === -1 ? undefined : listed[at + 1];
};

/** @throws Error where the Markdown has a part that the pages do not show. */
export const guidePage = (frame: Frame, guide: Guide): string => {
  const markdown = readGuide(guide);
  const next = nextOf(frame.guides, guide);
  return guidesPage(frame, {
    title: guide.title,
    current: guide.path,
    main: html`<article class="card prose">
${contentsOf(markdown)}${renderMarkdown(markdown, targetsOf(guide, frame.guides))}</article>
<p class="heading">${next && html`<a href="${next.path}">Next: ${next.title}</a>`}<a class="quiet" href="${guide.path}.md">This page as Markdown</a></p>`,
  });
};

/** The list of all pages for programs that read text, in the form of llmstxt.org. */
export const llmsText = ({ byRole }: Guides): string => `# Strongroom

> A self-hosted vault for card, bank and personal data: tokens, code on raw values in a sandbox, and a proxy to other APIs.

The API: [OpenAPI 3.1](/openapi.json). Each page below is Markdown.
${byRole
  .map(
    ({ role, guides }) =>
      `\n## ${role.name}\n\n${guides.map(({ title, path, summary }) => `- [${title}](${path}.md): ${summary}\n`).join('')}`,
  )
  .join('')}`;
