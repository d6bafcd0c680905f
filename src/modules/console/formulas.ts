// The pages of formulas: the list, one with its code, contracts and versions, and the form that changes one.
import { html, type Html } from '../../platform/http/html.ts';
import { declaredTypes, ELEMENTS_MAX } from '../code/formula-fields.ts';
import { findVersions, formulaCode, restoredNotice, versionPages, versionsCard } from './code-versions.ts';
import { copyMenu } from './copy.ts';
import {
  checkField,
  confirmed,
  fieldProblem,
  type FieldProblems,
  linesOf,
  problemsNotice,
  selectField,
  textArea,
  textInput,
} from './forms.ts';
import { clipped, isolated } from './list-parts.ts';
import type { Formula } from './reactor-record.ts';
import { addressOf, badge, consolePage, may, notice, recordsTable, time } from './shell.ts';
import {
  deletePages,
  editPages,
  findRecord,
  type Frame,
  type Kind,
  namedList,
  problemsByField,
  type RecordForm,
} from './resource-pages.ts';
import { problemLines, type Console, type Submission, type Visit } from './visit.ts';

// The form that changes a formula of the tenant: its name, its description, and its contracts, with a row for each declared value.

const KIND: Kind = { path: formulaCode.path, url: '/reactor-formulas', section: 'Formulas', noun: 'formula' };

const PATH = KIND.path;

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
  problems: FieldProblems;
};

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

const formPage = ({ session }: Visit, form: FormulaForm, { hidden, above }: Frame): string => {
  const { formula, name, description, problems } = form;
  const title = `Change ${formula.name}`;
  const texts = { typed: { name, description }, problems };
  return consolePage(session, {
    title,
    section: 'Formulas',
    main: html`<p class="quiet"><a href="${PATH}">Formulas</a></p>
<h1>${isolated(title)}</h1>
${above}
<form method="post" action="${PATH}/${formula.id}/edit" class="card" autocomplete="off">${hidden}
<p class="quiet">Its reactors are held to what is saved here from their next run. The code is changed on the page of a reactor that runs it.</p>
${textInput(texts, { name: 'name', label: 'Name', more: html` required maxlength="200"` })}
${textArea(texts, { name: 'description', label: 'What it does' })}
${lists.map((list) => listFields(form, list))}
<div class="actions"><button>Save</button><a href="${PATH}/${formula.id}">Cancel</a></div></form>`,
  });
};

const form: RecordForm<Formula, FormulaForm> = {
  permission: 'reactor:update',
  keeps: ['name', 'description'],
  // The permission check compares rights, as for a deployment of its code.
  withAllGrants: true,
  open: (formula) => openForm(formula as Formula),
  read: (submission, formula) => readForm(submission, formula as Formula),
  show: formPage,
  toBody: (typed) => ({ json: bodyOfForm(typed) }),
  toProblems: (_, answer) => problemsByField(answer, fieldOfPlace),
};

/** Characters of the code on the page, which stays below 40 KB. The API has all of it. */
const CODE_SHOWN_MAX = 12_000;

const DESCRIPTION_SHOWN_MAX = 200;

const typeBadge = ({ type }: Formula): Html => (type === 'official' ? badge('official', 'good') : badge('private'));

const makeLink = ({ id, name }: Formula): Html =>
  html`<a href="${addressOf('/console/reactors', { from: id })}#new">Make a reactor<span class="unseen"> from ${name}</span></a>`;

const listPage = (visit: Visit): Promise<string> =>
  namedList<Formula>(visit, KIND, {
    heading: html`<h1>Formulas</h1>`,
    above: html`${visit.query('done') === 'deleted' && notice('good', 'The formula was deleted.')}
<p class="quiet">Code that reactors run. Official formulas are the operator's; a reactor made from a sample has a private one of its own.</p>`,
    sample: 'Card*',
    table: (rows) =>
      recordsTable('Formulas', rows, [
        { label: 'Name', cell: ({ id, name }) => html`<a href="${PATH}/${id}">${isolated(name)}</a>` },
        { label: 'Type', cell: typeBadge },
        {
          label: 'What it does',
          cell: ({ description }) => description !== undefined && isolated(clipped(description, DESCRIPTION_SHOWN_MAX)),
        },
        ...(may(visit.session, 'reactor:create') ? [{ label: '', cell: makeLink }] : []),
      ]),
  });

const elements = (heading: string, found: readonly Formula['request_parameters'][number][]): Html | undefined =>
  found.length === 0
    ? undefined
    : html`<h3>${heading}</h3><dl>${found.map(
        ({ name, type, optional, description }) =>
          html`<dt><code>${name}</code></dt><dd>${type}${optional && ', may be left out'}${description !== undefined && html`. ${isolated(description)}`}</dd>`,
      )}</dl>`;

const onePage = async (visit: Visit, above?: Html): Promise<string> => {
  const { session } = visit;
  const formula = await findRecord<Formula>(visit, KIND);
  const isOfficial = formula.type === 'official';
  const { id, name, description, code, configuration, request_parameters, created_at } = formula;
  const versions = isOfficial ? undefined : await findVersions(visit, formulaCode, id);
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
  editPages(console, KIND, form);
  versionPages(console, formulaCode);
  deletePages(console, KIND, (submission, answer) =>
    onePage(submission, problemsNotice('The formula was not deleted.', problemLines(answer))),
  );
};
