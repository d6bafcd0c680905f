// What several pages say of tokens: where each has its page, and as much of its data as the API shows. Knows no value but
// what the API gave it.
import { notFound } from '../../errors.ts';
import { html, type Html } from '../../http/html.ts';
import { clipped, shortened } from './list-parts.ts';

/** A token of the wire. */
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
  created_by?: string;
  created_at?: string;
  modified_by?: string;
  modified_at?: string;
};

/** A masked value in a line of a table. */
const LINE_LENGTH_MAX = 120;

/** @throws notFound for what is no id and would lead elsewhere: whoever reads a URL goes up at two dots, and stays at one. */
const segmentOf = (id: string): string => {
  if (id === '' || id === '.' || id === '..') throw notFound('token');
  return encodeURIComponent(id);
};

/** Where the API has a token. */
export const tokenUrl = (id: string): string => `/tokens/${segmentOf(id)}`;

/** Where the console has it. */
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

export const hiddenValue = html`<span class="quiet">hidden</span>`;

/** The masked value in a line; of a token without a mask nothing. */
export const maskLine = (token: ShownToken): Html =>
  isHidden(token)
    ? hiddenValue
    : html`<bdi class="mask">${clipped(lineOf(token.type, token.data), LINE_LENGTH_MAX)}</bdi>`;

/** Of a masked value, on its token's own page. Above what any mask has that was not made to be large. */
const SHOWN_LENGTH_MAX = 8_000;

/** The masked value as a block: a text as it is, everything else as JSON. */
export const maskBlock = (token: ShownToken): Html => {
  if (isHidden(token)) return html`<p class="quiet">Hidden: there is no mask to show it by.</p>`;
  const text = typeof token.data === 'string' ? token.data : JSON.stringify(token.data, null, 2);
  return html`<pre class="mask">${clipped(text, SHOWN_LENGTH_MAX)}</pre>${
    text.length > SHOWN_LENGTH_MAX && html`<p class="quiet">Cut here: it has ${text.length} characters.</p>`
  }`;
};

/** The mask that the token was given, where that is not what is shown anyway. */
export const givenMask = ({ data, mask }: ShownToken): string | undefined => {
  if (mask === undefined || mask === null) return undefined;
  const text = JSON.stringify(mask, null, 2);
  return text === JSON.stringify(data, null, 2) ? undefined : clipped(text, SHOWN_LENGTH_MAX);
};
