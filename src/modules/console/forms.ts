// Parts of console forms: fields with hints and errors, pairs of names and texts, text areas, confirmations.
import { notFound } from '../../platform/base/errors.ts';
import { attribute, html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { comeAgainIn } from '../../platform/http/pages.ts';
import type { Session } from '../people/sessions.ts';
import { csrfField, notice } from './shell.ts';
import { type ApiAnswer, problemLines, type Visit } from './visit.ts';

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

// Text fields of forms that are changed and sent to the API: each with its hint, and with the errors that the API found in it.

/** Error sentences by field. The empty name has those that belong to no field. */
export type FieldProblems = ReadonlyMap<string, readonly string[]>;

/** A form as it was typed. */
export type Fields<Name extends string> = { typed: Readonly<Record<Name, string>>; problems: FieldProblems };

type Field<Name extends string> = { name: Name; label: string; hint?: HtmlValue; more?: Html };

export const findProblems = ({ problems }: { problems: FieldProblems }, name: string): readonly string[] =>
  problems.get(name) ?? [];

const labelled = (label: string, hint: HtmlValue, name: string, sentences: readonly string[], control: Html): Html =>
  html`<label>${label}${hint && html`<small>${hint}</small>`}${control}${fieldProblem(`${name}-problem`, sentences)}</label>`;

export const textInput = <Name extends string>(form: Fields<Name>, { name, label, hint, more }: Field<Name>): Html => {
  const sentences = findProblems(form, name);
  const control = html`<input name="${name}" value="${form.typed[name]}" autocomplete="off" autocapitalize="off" spellcheck="false"${more}${invalidAttributes(`${name}-problem`, sentences)}>`;
  return labelled(label, hint, name, sentences, control);
};

export const numberInput = <Name extends string>(form: Fields<Name>, field: Field<Name>): Html =>
  textInput(form, { ...field, more: html` inputmode="numeric"` });

/** @param field.rows of code or of a list with one entry on each line. */
export const textArea = <Name extends string>(form: Fields<Name>, field: Field<Name> & { rows?: number }): Html => {
  const { name, label, hint, more, rows = 2 } = field;
  const sentences = findProblems(form, name);
  const control = html`<textarea class="code line" name="${name}" rows="${rows}" spellcheck="false" autocapitalize="off" autocomplete="off"${more}${invalidAttributes(`${name}-problem`, sentences)}>${typedText(form.typed[name])}</textarea>`;
  return labelled(label, hint, name, sentences, control);
};

export const selectField = <Name extends string>(
  form: Fields<Name>,
  field: Field<Name> & { options: readonly (readonly [value: string, label: string])[] },
): Html => {
  const { name, label, hint, options } = field;
  const sentences = findProblems(form, name);
  const control = html`<select name="${name}"${invalidAttributes(`${name}-problem`, sentences)}>${options.map(
    ([value, text]) =>
      html`<option value="${value}"${attribute('selected', value === form.typed[name])}>${text}</option>`,
  )}</select>`;
  return labelled(label, hint, name, sentences, control);
};

export const ECHO_GUARD_LABEL = 'Values in answers';

const echoGuards: readonly (readonly [mode: string, label: string])[] = [
  ['off', 'Pass as they are'],
  ['mask', 'Mask them'],
  ['block', 'Block the answer'],
];

/** How strict the echo guard is. */
export const echoGuardField = (form: Fields<'echo_guard'>): Html =>
  selectField(form, {
    name: 'echo_guard',
    label: ECHO_GUARD_LABEL,
    hint: 'What happens to a value that was opened for a request and is in its answer',
    options: [['', 'As the tenant says'], ...echoGuards],
  });

/** A box that is ticked for `yes`. */
export const checkField = <Name extends string>(form: Fields<Name>, { name, label, hint }: Field<Name>): Html =>
  html`<label class="check"><input type="checkbox" name="${name}" value="yes"${attribute('checked', form.typed[name] === 'yes')}>${label}${hint && html`<small>${hint}</small>`}</label>`;

/** The lines that are not blank, each with its number from 1. */
export const numberedLines = (text: string): { line: number; text: string }[] =>
  text
    .split('\n')
    .map((line, index) => ({ line: index + 1, text: line.trim() }))
    .filter((each) => each.text !== '');

/** Undefined for none. */
export const listOfLines = (text: string): string[] | undefined => {
  const lines = numberedLines(text).map((each) => each.text);
  return lines.length === 0 ? undefined : lines;
};

/** A number as typed. Invalid text is sent as it is, so that the API reports the error. */
export const numberOf = (text: string): number | string | undefined => {
  const typed = text.trim();
  if (typed === '') return undefined;
  return /^\d+$/.test(typed) ? Number(typed) : typed;
};

/** The request header by which a form that is sent twice makes one record: the id of the form. */
export const onceHeader = (field: (name: string) => string): Record<string, string> => {
  const form_id = field('form_id');
  return /^[0-9a-f-]{36}$/.test(form_id) ? { 'svc-idempotency-key': form_id } : {};
};

/** Whether the API answered a form that was sent before. */
export const isReplayed = ({ headers }: Pick<ApiAnswer, 'headers'>): boolean =>
  headers['svc-idempotent-replayed'] === 'true';

/** Above a form whose errors are beside its fields. */
export const LOOK = 'The fields below say what is wrong.';

/** The lines above a form that the API refused: errors that belong to no field. */
export const linesAbove = (problems: FieldProblems, answer: ApiAnswer): readonly string[] =>
  problems.size === 0
    ? [...problemLines(answer), tryAgain(answer)].filter((line) => line !== undefined)
    : (problems.get('') ?? [LOOK]);

/** When a replaced key ends. The API takes any number of seconds up to a day. */
const graces = [
  [0, 'at once'],
  [3_600, 'in an hour'],
  [86_400, 'in a day'],
] as const;

export const graceField = html`<label>The current key ends<select name="grace_seconds">${graces.map(([seconds, label]) => html`<option value="${seconds}">${label}</option>`)}</select></label>`;

/** Undefined where the form does not say it. */
export const readGrace = (field: (name: string) => string): number | undefined =>
  graces.find(([seconds]) => String(seconds) === field('grace_seconds'))?.[0];

// Rows of a name and a text in a form, such as metadata: a row that is empty is left out, and each save gives two more.

export type Pair = { name: string; value: string };

/** `what`: the first part of the fields' names; `max`: how many the API takes. */
export type PairsOf = { what: string; max: number };

/** At the end. */
const EMPTY_ROWS = 2;

const pairField = ({ what }: PairsOf, index: number, part: keyof Pair): string => `${what}.${index}.${part}`;

export const pairsOf = (stored: Readonly<Record<string, string>>): Pair[] =>
  Object.entries(stored).map(([name, value]) => ({ name, value: linesOf(value) }));

/** One more than the API takes, which says so. */
export const readPairs = (field: (name: string) => string, of: PairsOf): Pair[] =>
  Array.from({ length: of.max + 1 }, (_, index) => ({
    name: field(pairField(of, index, 'name')).trim(),
    value: linesOf(field(pairField(of, index, 'value'))),
  })).filter(({ name, value }) => name !== '' || value !== '');

/** Errors that a body of the API cannot have. @param elsewhere names that have fields of their own. */
export const problemsOfPairs = (
  pairs: readonly Pair[],
  of: PairsOf,
  elsewhere: ReadonlySet<string> = new Set(),
): Map<string, string[]> => {
  const problems = new Map<string, string[]>();
  for (const [index, { name }] of pairs.entries()) {
    const isTwice = pairs.findIndex((pair) => pair.name === name) < index;
    const sentence =
      (name === '' && 'must have a name') ||
      (elsewhere.has(name) && 'must be another name: this one has a field above') ||
      (isTwice && 'must be a name that no other row has');
    if (sentence) problems.set(pairField(of, index, 'name'), [sentence]);
  }
  return problems;
};

/** The field of the pair that a place of the API's body names; undefined where no pair does. */
export const fieldOfPair = (pairs: readonly Pair[], of: PairsOf, name: string): string | undefined => {
  const index = pairs.findIndex((pair) => pair.name === name);
  return index === -1 ? undefined : pairField(of, index, 'value');
};

/** A textarea has no CR: a text that was not changed stays as it is stored. */
export const recordOfPairs = (
  pairs: readonly Pair[],
  stored: Readonly<Record<string, string>>,
): Record<string, string> =>
  Object.fromEntries(
    pairs.map(({ name, value }) => {
      const before = Object.hasOwn(stored, name) ? stored[name] : undefined;
      return [name, before !== undefined && linesOf(before) === value ? before : value];
    }),
  );

const pairFields = (
  { problems }: { problems: FieldProblems },
  { name, value }: Pair,
  index: number,
  of: PairsOf,
): Html => {
  const [nameField, valueField] = [pairField(of, index, 'name'), pairField(of, index, 'value')];
  const found = (field: string): readonly string[] => problems.get(field) ?? [];
  const sentences = [
    ...found(nameField).map((each) => `Name ${each}.`),
    ...found(valueField).map((each) => `Value ${each}.`),
  ];
  const problem = `${of.what}-${index}-problem`;
  const about = `${of.what} ${index + 1}`;
  return html`<div class="pairs"><input class="mono" name="${nameField}" value="${name}" aria-label="Name of ${about}" autocomplete="off" autocapitalize="off" spellcheck="false"${found(nameField).length > 0 && invalidAttributes(problem, sentences)}>
<textarea class="code line" rows="1" name="${valueField}" aria-label="Value of ${about}" autocomplete="off" spellcheck="false"${found(valueField).length > 0 && invalidAttributes(problem, sentences)}>${typedText(value)}</textarea></div>
${fieldProblem(problem, sentences)}`;
};

export const pairsFields = (form: { problems: FieldProblems }, pairs: readonly Pair[], of: PairsOf): Html => {
  const empty = Math.max(0, Math.min(EMPTY_ROWS, of.max + 1 - pairs.length));
  const rows = [...pairs, ...Array.from({ length: empty }, () => ({ name: '', value: '' }))];
  return html`${rows.map((row, index) => pairFields(form, row, index, of))}`;
};
