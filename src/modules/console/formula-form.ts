// The form that changes a formula of the tenant: its name, its description, and its contracts, with a row for each declared value.
import { AppError } from '../../platform/base/errors.ts';
import { html, type Html } from '../../platform/http/html.ts';
import { declaredTypes, ELEMENTS_MAX } from '../code/formula-fields.ts';
import { checkField, type FieldProblems, linesAbove, selectField, textArea, textInput } from './form-fields.ts';
import { fieldProblem, idOf, linesOf, problemsByPlace, problemsNotice } from './forms.ts';
import { isolated } from './list-parts.ts';
import type { Formula } from './reactor-record.ts';
import { addressOf, consolePage, csrfField, may, notice } from './shell.ts';
import { type ApiAnswer, bodyOf, type Console, isSuccess, type Outcome, type Submission, type Visit } from './visit.ts';

const PATH = '/console/formulas';

/** At the end of each list. */
const EMPTY_ROWS = 2;

const lists = ['configuration', 'request_parameters'] as const;
type ListName = (typeof lists)[number];

const listTexts: Record<ListName, { legend: string; hint: string }> = {
  configuration: {
    legend: 'Configuration',
    hint: 'Values that each reactor of the formula has, such as keys of other services.',
  },
  request_parameters: {
    legend: 'Parameters',
    hint: 'Values that an invocation passes, such as card.number. None: any args.',
  },
};

const parts = ['name', 'type', 'description', 'optional'] as const;
type Row = Readonly<Record<(typeof parts)[number], string>>;

const emptyRow: Row = { name: '', type: declaredTypes[0], description: '', optional: '' };

type FormulaForm = Record<ListName, readonly Row[]> & {
  formula: Formula;
  name: string;
  description: string;
  /** The version that the form began with. */
  seen: string;
  problems: FieldProblems;
};

const seenOf = ({ modified_at, created_at }: Formula): string => modified_at ?? created_at;

const rowOf = ({
  name,
  type,
  description = '',
  optional,
}: Formula['configuration'][number] & { optional?: boolean }) => ({
  name,
  type,
  description: linesOf(description),
  optional: optional === true ? 'yes' : '',
});

const openForm = (formula: Formula): FormulaForm => ({
  formula,
  name: formula.name,
  description: linesOf(formula.description ?? ''),
  configuration: formula.configuration.map(rowOf),
  request_parameters: formula.request_parameters.map(rowOf),
  seen: seenOf(formula),
  problems: new Map(),
});

const rowField = (list: ListName, index: number, part: (typeof parts)[number]): string => `${list}.${index}.${part}`;

/** One more than the API takes, which says so. */
const readRows = ({ field }: Submission, list: ListName): Row[] =>
  Array.from({ length: ELEMENTS_MAX + 1 }, (_, index) => {
    const texts = parts.map((part) => [part, linesOf(field(rowField(list, index, part))).trim()]);
    return Object.fromEntries(texts) as Row;
  }).filter(({ name, description }) => name !== '' || description !== '');

const readForm = (submission: Submission, formula: Formula): FormulaForm => ({
  formula,
  name: submission.field('name').trim(),
  description: linesOf(submission.field('description')).trim(),
  configuration: readRows(submission, 'configuration'),
  request_parameters: readRows(submission, 'request_parameters'),
  seen: submission.field('seen'),
  problems: new Map(),
});

const elementOf = ({ name, type, description }: Row) => ({ name, type, ...(description !== '' && { description }) });

/** The code and the icon stay. */
const bodyOfForm = ({ formula, name, description, configuration, request_parameters }: FormulaForm): object => ({
  name,
  ...(description !== '' && { description }),
  icon: formula.icon,
  type: 'private',
  code: formula.code,
  configuration: configuration.map(elementOf),
  request_parameters: request_parameters.map((row) => ({ ...elementOf(row), optional: row.optional === 'yes' })),
});

const fieldOfPlace = (place: string): string => {
  if (['name', 'description', ...lists].includes(place)) return place;
  const [, list, index, part] = /^(configuration|request_parameters)\[(\d+)\]\.(\w+)$/.exec(place) ?? [];
  return part === undefined ? '' : rowField(list as ListName, Number(index), part as (typeof parts)[number]);
};

const problemsOf = (answer: ApiAnswer): FieldProblems => {
  const problems = new Map<string, string[]>();
  for (const [place, sentences] of problemsByPlace(answer)) {
    const field = fieldOfPlace(place);
    const lines = field === '' ? sentences.map((sentence) => `${place} ${sentence}`) : sentences;
    problems.set(field, [...(problems.get(field) ?? []), ...lines]);
  }
  return problems;
};

const typeOptions = declaredTypes.map((type) => [type, type] as const);

const rowFields = (list: ListName, index: number, row: Row, problems: FieldProblems): Html => {
  const field = (part: (typeof parts)[number]): string => rowField(list, index, part);
  const form = { typed: Object.fromEntries(parts.map((part) => [field(part), row[part]])), problems };
  const what = list === 'configuration' ? 'Value' : 'Parameter';
  return html`<fieldset><legend>${what} ${index + 1}</legend>
<div class="pairs">${textInput(form, { name: field('name'), label: 'Name' })}
${selectField(form, { name: field('type'), label: 'Type', options: typeOptions })}</div>
${textArea(form, { name: field('description'), label: 'What it is for', rows: 1 })}
${list === 'request_parameters' && checkField(form, { name: field('optional'), label: 'May be left out' })}</fieldset>`;
};

const listFields = (form: FormulaForm, list: ListName): Html => {
  const { legend, hint } = listTexts[list];
  const empty = Math.max(0, Math.min(EMPTY_ROWS, ELEMENTS_MAX - form[list].length));
  const rows = [...form[list], ...Array.from({ length: empty }, () => emptyRow)];
  return html`<h2>${legend}</h2><p class="hint">${hint} To remove one, empty its name and its text; each save gives two more.</p>
${fieldProblem(`${list}-problem`, form.problems.get(list) ?? [])}
${rows.map((row, index) => rowFields(list, index, row, form.problems))}`;
};

const formPage = ({ session }: Visit, form: FormulaForm, above?: Html): string => {
  const { formula, name, description, problems, seen } = form;
  const title = `Change ${formula.name}`;
  const texts = { typed: { name, description }, problems };
  return consolePage(session, {
    title,
    section: 'Formulas',
    main: html`<p class="quiet"><a href="${PATH}">Formulas</a></p>
<h1>${isolated(title)}</h1>
${above}
<form method="post" action="${PATH}/${formula.id}/edit" class="card" autocomplete="off">${csrfField(session)}<input type="hidden" name="seen" value="${seen}">
<p class="quiet">Its reactors are held to what is saved here from their next run. The code is changed on the page of a reactor that runs it.</p>
${textInput(texts, { name: 'name', label: 'Name', more: html` required maxlength="200"` })}
${textArea(texts, { name: 'description', label: 'What it does' })}
${lists.map((list) => listFields(form, list))}
<div class="actions"><button>Save</button><a href="${PATH}/${formula.id}">Cancel</a></div></form>`,
  });
};

const findFormula = async (visit: Visit): Promise<Formula> =>
  bodyOf<Formula>(await visit.api({ method: 'GET', url: `/reactor-formulas/${idOf(visit, 'formula')}` }));

const save = async (submission: Submission): Promise<Outcome> => {
  const formula = await findFormula(submission);
  const form = readForm(submission, formula);
  if (form.seen !== seenOf(formula)) {
    const sentence =
      'This formula was changed since the page was opened. Your changes are below and are not saved. Save again to overwrite the other changes.';
    return { status: 409, page: formPage(submission, { ...form, seen: seenOf(formula) }, notice('warn', sentence)) };
  }
  const answer = await submission.api({
    method: 'PUT',
    url: `/reactor-formulas/${formula.id}`,
    json: bodyOfForm(form),
    // The permission check compares rights, as for a deployment of its code.
    withAllGrants: true,
  });
  if (isSuccess(answer)) return { seeOther: addressOf(`${PATH}/${formula.id}`, { done: 'saved' }) };
  const problems = problemsOf(answer);
  const above = problemsNotice('The formula was not saved.', linesAbove(problems, answer));
  return { status: answer.status, page: formPage(submission, { ...form, problems }, above) };
};

export const formulaFormPages = (console: Console): void => {
  console.get(`${PATH}/:id/edit`, async (visit) => {
    if (!may(visit.session, 'reactor:update')) throw new AppError('forbidden', 'Your role does not change formulas.');
    return formPage(visit, openForm(await findFormula(visit)));
  });
  console.postAfterCode(`${PATH}/:id/edit`, save, ['name', 'description']);
};
