// Parts of console forms: error texts, ids in paths, and text areas.
import { notFound } from '../../platform/errors.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { comeAgainIn } from '../../platform/http/pages.ts';
import { notice } from './shell.ts';
import type { ApiAnswer, Visit } from './visit.ts';

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The id in the path of a page. Anything but a UUID, such as a dot segment, could change the path of the API request. @throws notFound. */
export const idOf = ({ param }: Pick<Visit, 'param'>, what: string): string => {
  const id = param('id');
  if (!uuid.test(id)) throw notFound(what);
  return id.toLowerCase();
};

/** The text of a textarea with LF. Browsers send CRLF. */
export const linesOf = (typed: string): string => typed.replaceAll('\r\n', '\n');

/** The content of a textarea. The line end before it is the one that browsers drop. */
export const typedText = (text: string): Html => html`\n${text}`;

/** The API's sentences continue the name of a field. */
const whole = (sentence: string): string => sentence.replace(/^must /, 'It must ');

/** The error text of a field; `id` is what its aria-describedby names. */
export const fieldProblem = (id: string, sentences: readonly string[]): Html | undefined =>
  sentences.length === 0 ? undefined : html`<span class="problem" id="${id}">${sentences.map(whole).join(' ')}</span>`;

/** The attributes of a field with an error. */
export const invalidAttributes = (id: string, sentences: readonly string[]): Html | undefined =>
  sentences.length === 0 ? undefined : html` aria-invalid="true" aria-describedby="${id}"`;

/** The errors above a form. */
export const problemsNotice = (heading: string, lines: readonly string[], more?: HtmlValue): Html =>
  notice(
    'bad',
    html`<strong>${heading}</strong>${
      lines.length === 1 ? html`<p>${lines[0]}</p>` : html`<ul>${lines.map((line) => html`<li>${line}</li>`)}</ul>`
    }${more}`,
  );

/** When to try again; undefined if the response does not say. */
export const tryAgain = ({ headers }: Pick<ApiAnswer, 'headers'>): string | undefined => {
  const seconds = Number(headers['retry-after'] ?? Number.NaN);
  return Number.isFinite(seconds) ? comeAgainIn(seconds) : undefined;
};

/** Errors by their place; those without a place under the empty key. */
export const problemsByPlace = ({ body }: Pick<ApiAnswer, 'body'>): Map<string, string[]> => {
  const { errors } = (body ?? {}) as { errors?: Record<string, string[]> };
  return new Map(Object.entries(errors ?? {}));
};
