// How pages show tokens: their URLs, links and masked values, and how a form finds tokens.
import { notFound } from '../../platform/base/errors.ts';
import { html, type Html } from '../../platform/http/html.ts';
import type { Bound } from '../access/bounds.ts';
import { problemsNotice } from './forms.ts';
import { clipped, shortened } from './list-parts.ts';
import { badge, may, recordsTable } from './shell.ts';
import { isSuccess, problemLines, type Visit } from './visit.ts';

/** A token in a response of the API. */
export type ShownToken = {
  id: string;
  type: string;
  data?: unknown;
  mask?: unknown;
  fingerprint?: string;
  fingerprint_expression?: string;
  containers: string[];
  metadata?: Record<string, string>;
  search_indexes?: string[];
  expires_at?: string;
  bound_to?: Bound;
  uses?: number;
  spent?: number;
  created_by?: string;
  created_at?: string;
  modified_by?: string;
  modified_at?: string;
};

/** The length of a masked value in a table. */
const LINE_LENGTH_MAX = 120;

/** Whether a URL may have this id: one that is empty or a dot segment would reach another route. */
export const isSegment = (id: string): boolean => id !== '' && id !== '.' && id !== '..';

/** @throws notFound for an id that no URL may have. */
export const segmentOf = (id: string): string => {
  if (!isSegment(id)) throw notFound('token');
  return encodeURIComponent(id);
};

/** The URL of a token in the API. */
export const tokenUrl = (id: string): string => `/tokens/${segmentOf(id)}`;

/** The URL of a token in the console. */
export const tokenPath = (id: string): string => `/console/tokens/${segmentOf(id)}`;

export const tokenLink = (id: string): Html => html`<a class="mono" href="${tokenPath(id)}">${shortened(id)}</a>`;

const isScalar = (value: unknown): value is string | number | boolean =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';

const cardLine = ({ number, expiration_month, expiration_year }: Record<string, unknown>): string =>
  [
    number,
    isScalar(expiration_month) &&
      isScalar(expiration_year) &&
      `${String(expiration_month).padStart(2, '0')}/${expiration_year}`,
  ]
    .filter(isScalar)
    .filter((part) => part !== false)
    .join(' ');

const lineOf = (type: string, data: unknown): string => {
  if (isScalar(data)) return String(data);
  const entries = Object.entries(data as object);
  if (type === 'card' && isScalar((data as { number?: unknown }).number))
    return cardLine(data as Record<string, unknown>);
  if (Array.isArray(data) || !entries.every(([, value]) => isScalar(value))) return JSON.stringify(data);
  return entries.map(([name, value]) => `${name} ${String(value)}`).join(', ');
};

const isHidden = ({ data }: ShownToken): boolean => data === undefined || data === null;

const hiddenValue = html`<span class="quiet">hidden</span>`;

/** The masked value in one line. */
export const maskLine = (token: ShownToken): Html =>
  isHidden(token)
    ? hiddenValue
    : html`<bdi class="mask">${clipped(lineOf(token.type, token.data), LINE_LENGTH_MAX)}</bdi>`;

/** The length of a masked value as the heading of a page. */
const HEADING_LENGTH_MAX = 60;

/** The masked value as people say it, such as the last four digits of a card. Without a mask it is the id. */
export const headingOf = (token: ShownToken): string =>
  isHidden(token)
    ? clipped(token.id, HEADING_LENGTH_MAX)
    : clipped(
        lineOf(token.type, token.data).replace(/^X+(?=\d{4}(?: |$))/, '\u2022\u2022\u2022\u2022 '),
        HEADING_LENGTH_MAX,
      );

/** The length of a masked value on the page of its token. Common masks are shorter. */
const SHOWN_LENGTH_MAX = 8_000;

/** The masked value as a block: text as it is, everything else as JSON. */
export const maskBlock = (token: ShownToken): Html => {
  if (isHidden(token)) return html`<p class="quiet">Hidden, because the token has no mask.</p>`;
  const text = typeof token.data === 'string' ? token.data : JSON.stringify(token.data, null, 2);
  return html`<pre class="mask">${clipped(text, SHOWN_LENGTH_MAX)}</pre>${
    text.length > SHOWN_LENGTH_MAX && html`<p class="quiet">Cut here: it has ${text.length} characters.</p>`
  }`;
};

/** The mask of the token, if it differs from the masked value. */
export const ownMask = ({ data, mask }: ShownToken): string | undefined => {
  if (mask === undefined || mask === null) return undefined;
  const text = JSON.stringify(mask, null, 2);
  return text === JSON.stringify(data, null, 2) ? undefined : clipped(text, SHOWN_LENGTH_MAX);
};

// Finds tokens for the arguments of a test or the body of a request: the newest, or those whose mask ends in four characters, each with its expression.

const PICKED_MAX = 10;

/** What a search takes in quotation marks as it is. */
const LAST4 = /^[^\s"\\*]{1,4}$/u;

/** The button and, after it was pressed, what it found. Undefined for a role that finds no tokens. */
export const pickerFields = ({ session }: Pick<Visit, 'session'>, found: Html | undefined): Html | undefined =>
  may(session, 'token:search')
    ? html`<div class="search"><input name="last4" maxlength="4" aria-label="Last four" placeholder="Last four, or none for the newest" autocomplete="off"><button name="do" value="pick" class="second" formnovalidate>Find a token</button></div>${found}`
    : undefined;

const tokensTable = (tokens: readonly ShownToken[]): Html =>
  recordsTable('Tokens to use', tokens, [
    { label: 'Masked value', cell: maskLine },
    { label: 'Type', cell: ({ type }) => badge(type) },
    { label: 'Expression', cell: ({ id }) => html`<code data-copy="Copy"><bdi>{{ ${id} }}</bdi></code>` },
  ]);

/** Searches by POST to the API: the four characters stand in no URL. */
export const findTokens = async (visit: Visit, typed: string): Promise<Html> => {
  const last4 = typed.trim();
  if (last4 !== '' && !LAST4.test(last4))
    return problemsNotice('No token was looked for.', ['These are not the last four characters of a mask.']);
  const answer = await (last4 === ''
    ? visit.api({ method: 'GET', url: `/tokens?size=${PICKED_MAX}` })
    : visit.api({ method: 'POST', url: '/tokens/search', json: { query: `last4:"${last4}"`, size: PICKED_MAX } }));
  if (!isSuccess(answer)) return problemsNotice('No token was found.', problemLines(answer));
  const { data } = answer.body as { data: ShownToken[] };
  return data.length === 0 ? html`<p class="quiet">No tokens match.</p>` : tokensTable(data);
};
