// Parts of console forms: error texts, ids in paths, text areas, and a check of typed JSON.
import { notFound } from '../../platform/base/errors.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { comeAgainIn } from '../../platform/http/pages.ts';
import type { Session } from '../people/sessions.ts';
import { csrfField, notice } from './shell.ts';
import type { ApiAnswer, Visit } from './visit.ts';

export const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

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

/** The API's sentences continue the name of a field, some without a full stop. */
const whole = (sentence: string): string => sentence.replace(/^must /, 'It must ').replace(/[^.!?]$/u, '$&.');

/** The error text of a field; `id` is what its aria-describedby names. */
export const fieldProblem = (id: string, sentences: readonly string[]): Html | undefined =>
  sentences.length === 0 ? undefined : html`<span class="problem" id="${id}">${sentences.map(whole).join(' ')}</span>`;

/** The attributes of a field with an error. */
export const invalidAttributes = (id: string, sentences: readonly string[]): Html | undefined =>
  sentences.length === 0 ? undefined : html` aria-invalid="true" aria-describedby="${id}"`;

export const WRONG_PASSWORD = 'This is not your password.';

/** The password of the session's member, where a device is added. Single sign-on proves the member otherwise. */
export const passwordField = (
  { session }: Pick<Visit, 'session'>,
  id: string,
  problems: readonly string[],
): Html | undefined =>
  session.sso
    ? undefined
    : html`<input value="${session.email}" readonly hidden autocomplete="username">
<label>Your password<input type="password" name="current_password" required maxlength="4096" autocomplete="current-password"${invalidAttributes(id, problems)}>${fieldProblem(id, problems)}</label>`;

/** Asks for a confirmation before it submits. Works without JavaScript. @param ask.fields more of the form. */
export const confirmed = (
  session: Session,
  ask: { action: string; summary: string; question: string; button: string; fields?: Html },
): Html => html`<details class="confirm"><summary>${ask.summary}</summary><form method="post" action="${ask.action}">
${csrfField(session)}${ask.fields}<p>${ask.question}</p><button class="danger small">${ask.button}</button></form></details>`;

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

/** A text area with line numbers. @param options.line is marked as the one with an error. */
export const codeArea = (options: {
  name: string;
  text: string;
  line: number | undefined;
  problems: readonly string[];
  isReadOnly?: boolean;
  isShort?: boolean;
}): Html => {
  const { name, text, line, problems, isReadOnly, isShort } = options;
  const problem = `${name}-problem`;
  return html`<div class="editor${isShort && ' short'}"><textarea class="code" id="${name}" name="${name}" data-lines${line !== undefined && html` data-error-line="${line}"`} rows="${isShort ? 8 : 24}" spellcheck="false" autocapitalize="off" autocomplete="off" wrap="off"${isReadOnly && html` readonly`}${invalidAttributes(problem, problems)}>${typedText(text)}</textarea></div>
${fieldProblem(problem, problems)}`;
};

/** Checks typed JSON before the API is called. */
export const jsonRefusal = (text: string): { sentence: string; line: number | undefined } | undefined => {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    // The parser's message may quote what was typed, so only the position is used.
    const [, position] = / position (\d+)/.exec((error as Error).message) ?? [];
    const line = position === undefined ? undefined : text.slice(0, Number(position)).split('\n').length;
    return { sentence: `must be JSON${line === undefined ? '' : `: look at line ${line}`}`, line };
  }
};
