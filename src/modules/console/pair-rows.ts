// Rows of a name and a text in a form, such as metadata: a row that is empty is left out, and each save gives two more.
import { html, type Html } from '../../platform/http/html.ts';
import type { FieldProblems } from './form-fields.ts';
import { fieldProblem, invalidAttributes, linesOf, typedText } from './forms.ts';

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
