// The pages of formulas: the list, one with its code, contracts and versions, and the form that changes one.
import { AppError } from '../../platform/base/errors.ts';
import { html, type Html } from '../../platform/http/html.ts';
import { declaredTypes, ELEMENTS_MAX } from '../code/formula-fields.ts';
import { findVersions, formulaCode, restoredNotice, versionPages, versionsCard } from './code-versions.ts';
import { copyMenu } from './copy.ts';
import {
  checkField,
  confirmed,
  fieldProblem,
  type FieldProblems,
  idOf,
  linesAbove,
  linesOf,
  problemsByPlace,
  problemsNotice,
  selectField,
  textArea,
  textInput,
} from './forms.ts';
import { clipped, isolated, nameSearch, pagerOf, readNamedPage } from './list-parts.ts';
import type { Formula } from './reactor-record.ts';
import { addressOf, badge, consolePage, csrfField, empty, may, notice, recordsTable, time } from './shell.ts';
import {
  type ApiAnswer,
  bodyOf,
  type Console,
  isSuccess,
  type Outcome,
  problemLines,
  type Submission,
  type Visit,
} from './visit.ts';

// The form that changes a formula of the tenant: its name, its description, and its contracts, with a row for each declared value.

const PATH = formulaCode.path;

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

const formulaFormPages = (console: Console): void => {
  console.get(`${PATH}/:id/edit`, async (visit) => {
    if (!may(visit.session, 'reactor:update')) throw new AppError('forbidden', 'Your role does not change formulas.');
    return formPage(visit, openForm(await findFormula(visit)));
  });
  console.postAfterCode(`${PATH}/:id/edit`, save, ['name', 'description']);
};

/** Characters of the code on the page, which stays below 40 KB. The API has all of it. */
const CODE_SHOWN_MAX = 12_000;

const DESCRIPTION_SHOWN_MAX = 200;

const typeBadge = ({ type }: Formula): Html => (type === 'official' ? badge('official', 'good') : badge('private'));

const makeLink = ({ id, name }: Formula): Html =>
  html`<a href="${addressOf('/console/reactors', { from: id })}#new">Make a reactor<span class="unseen"> from ${name}</span></a>`;

const listPage = async (visit: Visit): Promise<string> => {
  const { name, data, pagination } = await readNamedPage<Formula>(visit, '/reactor-formulas');
  const columns = [
    { label: 'Name', cell: (each: Formula) => html`<a href="${PATH}/${each.id}">${isolated(each.name)}</a>` },
    { label: 'Type', cell: typeBadge },
    {
      label: 'What it does',
      cell: ({ description }: Formula) =>
        description !== undefined && isolated(clipped(description, DESCRIPTION_SHOWN_MAX)),
    },
    ...(may(visit.session, 'reactor:create') ? [{ label: '', cell: makeLink }] : []),
  ];
  return consolePage(visit.session, {
    title: 'Formulas',
    section: 'Formulas',
    main: html`<h1>Formulas</h1>
${visit.query('done') === 'deleted' && notice('good', 'The formula was deleted.')}
<p class="quiet">Code that reactors run. Official formulas are the operator's; a reactor made from a sample has a private one of its own.</p>
${nameSearch(PATH, name, 'Card*')}
${data.length === 0 ? empty(name === '' ? 'No formulas yet.' : 'No formulas match.') : recordsTable('Formulas', data, columns)}
${pagerOf(pagination, { path: PATH, parameters: { name }, label: 'Pages of formulas' })}`,
  });
};

const elements = (heading: string, found: readonly Formula['request_parameters'][number][]): Html | undefined =>
  found.length === 0
    ? undefined
    : html`<h3>${heading}</h3><dl>${found.map(
        ({ name, type, optional, description }) =>
          html`<dt><code>${name}</code></dt><dd>${type}${optional && ', may be left out'}${description !== undefined && html`. ${isolated(description)}`}</dd>`,
      )}</dl>`;

const onePage = async (visit: Visit, above?: Html): Promise<string> => {
  const { session } = visit;
  const id = idOf(visit, 'formula');
  const formula = bodyOf<Formula>(await visit.api({ method: 'GET', url: `/reactor-formulas/${id}` }));
  const isOfficial = formula.type === 'official';
  const versions = isOfficial ? undefined : await findVersions(visit, formulaCode, id);
  const { name, description, code, configuration, request_parameters, created_at } = formula;
  return consolePage(session, {
    title: name,
    section: 'Formulas',
    main: html`<p class="quiet"><a href="${PATH}">Formulas</a></p>
<div class="heading"><h1>${isolated(name)} ${typeBadge(formula)}</h1><span class="actions">${!isOfficial && may(session, 'reactor:update') && html`<a class="button second" href="${PATH}/${id}/edit">Change</a>`}${may(session, 'reactor:create') && html`<a class="button" href="${addressOf('/console/reactors', { from: id })}#new">Make a reactor</a>`}</span></div>
${copyMenu(visit, { id, call: { path: `/reactor-formulas/${id}` } })}
${above ?? restoredNotice(visit)}
${visit.query('done') === 'saved' && notice('good', 'The formula was saved. Its reactors are held to it from their next run.')}
<section class="card">${description !== undefined && html`<p>${isolated(description)}</p>`}
<p class="quiet">Created ${time(created_at)}</p>
<h2>Code</h2><pre tabindex="0" role="region" aria-label="Code"><code>${clipped(code, CODE_SHOWN_MAX)}</code></pre>
${code.length > CODE_SHOWN_MAX && html`<p class="quiet">Cut off: it has ${code.length} characters.</p>`}
<p class="hint">${isOfficial ? 'It cannot be changed here.' : 'It is changed on the page of a reactor that runs it.'}</p>
${elements(
  'Configuration',
  configuration.map((each) => ({ ...each, optional: false })),
)}
${elements('Parameters', request_parameters)}
${
  !isOfficial &&
  may(session, 'reactor:delete') &&
  confirmed(session, {
    action: `${PATH}/${id}/delete`,
    summary: 'Delete this formula',
    question: 'Its code and versions are gone. A formula with reactors stays.',
    button: 'Delete the formula',
  })
}</section>
${versions && versionsCard(visit, formulaCode, id, versions)}`,
  });
};

export const formulasPages = (console: Console): void => {
  console.get(PATH, listPage);
  console.get(`${PATH}/:id`, (visit) => onePage(visit));
  formulaFormPages(console);
  versionPages(console, formulaCode);
  console.get(`${PATH}/:id/delete`, async (visit) => ({ seeOther: `${PATH}/${idOf(visit, 'formula')}` }));
  console.postAfterCode(`${PATH}/:id/delete`, async (submission) => {
    const answer = await submission.api({ method: 'DELETE', url: `/reactor-formulas/${idOf(submission, 'formula')}` });
    if (isSuccess(answer)) return { seeOther: addressOf(PATH, { done: 'deleted' }) };
    if (answer.status !== 409) bodyOf(answer);
    const above = problemsNotice('The formula was not deleted.', problemLines(answer));
    return { status: 409, page: await onePage(submission, above) };
  });
};
