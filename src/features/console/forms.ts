// What forms of the console share: sentences beside the field that they are about, ids out of a path, and what was typed.
// Knows no endpoint.
import { notFound } from '../../errors.ts';
import { html, type Html, type HtmlValue } from '../../http/html.ts';
import { comeAgainIn } from '../../http/pages.ts';
import { notice } from './shell.ts';
import type { ApiAnswer, Visit } from './visit.ts';

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The id in a page's path. What is none, such as a dot segment, would lead elsewhere in the API. @throws notFound. */
export const idOf = ({ param }: Pick<Visit, 'param'>, what: string): string => {
  const id = param('id');
  if (!uuid.test(id)) throw notFound(what);
  return id.toLowerCase();
};

/** What was typed in several lines: browsers send every line end as two characters. */
export const linesOf = (typed: string): string => typed.replaceAll('\r\n', '\n');

/** A text in a textarea, whose first line end browsers leave out. */
export const typedText = (text: string): Html => html`\n${text}`;

/** The API's sentences go on from a field's name. */
const whole = (sentence: string): string => sentence.replace(/^must /, 'It must ');

/** Sentences about one field; `id` is what the field's aria-describedby names. */
export const fieldProblem = (id: string, sentences: readonly string[]): Html | undefined =>
  sentences.length === 0 ? undefined : html`<span class="problem" id="${id}">${sentences.map(whole).join(' ')}</span>`;

/** The attributes of a field that has a problem. */
export const faulty = (id: string, sentences: readonly string[]): Html | undefined =>
  sentences.length === 0 ? undefined : html` aria-invalid="true" aria-describedby="${id}"`;

/** What went wrong, above a form. */
export const problemsNotice = (heading: string, lines: readonly string[], more?: HtmlValue): Html =>
  notice(
    'bad',
    html`<strong>${heading}</strong>${
      lines.length === 1 ? html`<p>${lines[0]}</p>` : html`<ul>${lines.map((line) => html`<li>${line}</li>`)}</ul>`
    }${more}`,
  );

/** When to come again, in words; undefined where the answer does not say. */
export const comeAgain = ({ headers }: Pick<ApiAnswer, 'headers'>): string | undefined => {
  const seconds = Number(headers['retry-after'] ?? Number.NaN);
  return Number.isFinite(seconds) ? comeAgainIn(seconds) : undefined;
};

/** Sentences of a problem by the place that they are about; those about no place under the empty one. */
export const problemsByPlace = ({ body }: Pick<ApiAnswer, 'body'>): Map<string, string[]> => {
  const { errors } = (body ?? {}) as { errors?: Record<string, string[]> };
  return new Map(Object.entries(errors ?? {}));
};
