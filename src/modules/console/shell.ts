// The frame of every console page, and parts that several pages use.
import { attribute, html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { brandMark, pageOf } from '../../platform/http/pages.ts';
import type { Permission } from '../access/permissions.ts';
import type { Session } from '../people/sessions.ts';
import type { Shown } from '../code/shown.ts';

export const HOME_PATH = '/console/home';
export const FIND_PATH = '/console/find';

/** Longer texts find nothing: the longest id of a token. */
export const FIND_LENGTH_MAX = 400;

const sections = [
  [HOME_PATH, 'Home', undefined, ''],
  ['/console/usage', 'Usage', 'report:read', ''],
  ['/console/tokens', 'Tokens', 'token:read', 'Vault'],
  ['/console/logs', 'Logs', 'log:read', 'Vault'],
  ['/console/reactors', 'Reactors', 'reactor:read', 'Run'],
  ['/console/formulas', 'Formulas', 'reactor:read', 'Run'],
  ['/console/proxies', 'Proxies', 'proxy:read', 'Run'],
  ['/console/webhooks', 'Webhooks', 'webhook:read', 'Run'],
  ['/console/runs', 'Runs', 'log:read', 'Run'],
  ['/console/forwards', 'Forwards', 'forward:read', 'Run'],
  ['/console/applications', 'Applications', 'application:read', 'Access'],
  ['/console/access', 'Who may', 'access:read', 'Access'],
  ['/console/people', 'People', 'tenant:invitation:read', 'Access'],
  ['/console/settings', 'Settings', 'tenant:read', 'Access'],
] as const satisfies readonly (readonly [
  path: string,
  name: string,
  permission: Permission | undefined,
  group: string,
])[];

/** `None`: an error page. */
export type Section = (typeof sections)[number][1] | 'Account' | 'None';

export const may = ({ caller }: Pick<Session, 'caller'>, permission: Permission): boolean =>
  caller.permissions.has(permission);

/** The sections that the role of a member opens. */
export const sectionsOf = (session: Session) =>
  sections.filter(([, , permission]) => permission === undefined || may(session, permission));

/** What the role needs for the pages of a section. Undefined for other pages, such as the account. */
export const permissionOfPage = (path: string): Permission | undefined =>
  sections.find(([section]) => path === section || path.startsWith(`${section}/`))?.[2];

/** Required in every form that changes something. */
export const csrfField = ({ csrf }: Pick<Session, 'csrf'>): Html =>
  html`<input type="hidden" name="csrf" value="${csrf}">`;

const tenantOf = (session: Session): Html =>
  session.tenants.length < 2
    ? html`<span class="name" title="${session.email}">${session.tenant_name}</span>`
    : html`<form method="post" action="/console/tenant">${csrfField(session)}<select name="tenant_id" aria-label="Tenant" data-submit>${session.tenants.map(
        ({ tenant_id, name }) =>
          html`<option value="${tenant_id}"${attribute('selected', tenant_id === session.tenant_id)}>${name}</option>`,
      )}</select><button>Switch</button></form>`;

const navOf = (session: Session, current: Section): Html =>
  html`<nav aria-label="Console">${[...Map.groupBy(sectionsOf(session), ([, , , group]) => group)].map(
    ([group, members]) =>
      html`${group !== '' && html`<p>${group}</p>`}${members.map(
        ([path, name]) => html`<a href="${path}"${name === current && html` aria-current="page"`}>${name}</a>`,
      )}`,
  )}${session.docsUrl !== undefined && html`<p>Help</p><a href="${session.guidesUrl}">Guides</a><a href="${session.docsUrl}">API reference</a>`}</nav>`;

/** Sends by POST, because the text may be a value. A text that is none goes to a URL from there. */
const findForm = (session: Session, query: string): Html =>
  html`<form method="post" action="${FIND_PATH}" class="find" role="search" aria-label="Find">${csrfField(session)}<input type="search" name="q" value="${query}" maxlength="${FIND_LENGTH_MAX}" aria-label="Find" placeholder="Find a card by last four, an id, a trace id, a name" autocomplete="off" autocapitalize="off" spellcheck="false" data-find><kbd hidden>/</kbd></form>`;

/** What is done in development is a trial: no one takes one vault for the other. */
const modeBadge = ({ mode }: Session): Html => badge(mode, mode === 'development' ? 'warn' : undefined);

/** At a desk a bar on the left, on a phone a menu: each hides the other. */
const headerOf = (
  session: Session,
  current: Section,
  query: string,
): Html => html`<a class="skip" href="#main">Skip to the content</a>
<header class="top"><div class="side"><a href="/console" class="brand">${brandMark} Strongroom</a>${modeBadge(session)}
<div class="wide-only">${navOf(session, current)}</div>
<details class="menu"><summary>Menu</summary>${navOf(session, current)}<p data-zone>Times in UTC</p></details></div>
<div class="bar">${findForm(session, query)}<span class="zone" data-zone>Times in UTC</span>
<div class="who">${tenantOf(session)}<a href="/console/account"${current === 'Account' && html` aria-current="page"`}>Account</a><form method="post" action="/console/sign-out">${csrfField(session)}<button>Sign out</button></form></div></div></header>`;

/** A page of the console, in its section. */
export const consolePage = (
  session: Session,
  page: { title: string; section: Section; main: HtmlValue; hasPasskeys?: boolean; query?: string },
): string =>
  pageOf({
    title: page.title,
    header: headerOf(session, page.section, page.query ?? ''),
    main: html`${page.main}`,
    hasPasskeys: page.hasPasskeys ?? false,
  });

/** The result of an action, above the page. */
export const notice = (kind: 'good' | 'bad' | 'warn', content: HtmlValue): Html =>
  html`<div class="notice ${kind}" role="${kind === 'good' ? 'status' : 'alert'}">${content}</div>`;

export const badge = (text: string, kind?: 'good' | 'bad' | 'warn'): Html =>
  html`<span class="badge ${kind}">${text}</span>`;

/** A timestamp in UTC. A script converts it to the local time of the browser. */
export const time = (at: unknown): Html | undefined =>
  typeof at === 'string' ? html`<time datetime="${at}">${at.slice(0, 16).replace('T', ' ')} UTC</time>` : undefined;

/** A value as indented JSON. */
export const shownJson = (value: unknown): string => JSON.stringify(value, null, 2) ?? '';

/** Output of code or of a destination, under a heading. */
export const shownBlock = (
  heading: string,
  { text, isCut }: Shown,
  cutSentence = 'Cut off: there is more than is shown here. The API returns all of it.',
): Html => html`<h3>${heading}</h3>
<pre tabindex="0" role="region" aria-label="${heading}"><code>${text}</code></pre>
${isCut && html`<p class="quiet">${cutSentence}</p>`}`;

type Column<Row> = { label: string; cell: (row: Row) => HtmlValue };

/** Records as a table on wide screens, and as cards on narrow ones. */
export const recordsTable = <Row>(caption: string, rows: readonly Row[], columns: readonly Column<Row>[]): Html =>
  html`<table class="records" aria-label="${caption}"><thead><tr>${columns.map(({ label }) =>
    label === '' ? html`<td></td>` : html`<th scope="col">${label}</th>`,
  )}</tr></thead>
<tbody>${rows.map(
    (row) =>
      html`<tr>${columns.map(({ label, cell }) => html`<td data-label="${label}"><div>${cell(row)}</div></td>`)}</tr>\n`,
  )}</tbody></table>`;

/** For an empty list. */
export const empty = (content: HtmlValue): Html => html`<div class="card empty">${content}</div>`;

/** The URL of a page with these parameters, without empty ones. */
export const addressOf = (path: string, parameters: Record<string, string | undefined>): string => {
  const query = new URLSearchParams(
    Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== ''),
  ).toString();
  return query === '' ? path : `${path}?${query}`;
};
