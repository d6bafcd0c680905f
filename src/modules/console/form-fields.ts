// Text fields of forms that are changed and sent to the API: each with its hint, and with the errors that the API found in it.
import { attribute, html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { fieldProblem, invalidAttributes, tryAgain, typedText } from './forms.ts';
import { type ApiAnswer, problemLines } from './visit.ts';

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
