// The run pages: lists runs of code and requests of proxies with filters, and shows one.
import { runKinds, runOutcomes } from '../../platform/db/run-rows.ts';
import { attribute, html, type Html } from '../../platform/http/html.ts';
import { listNames, type NamedRow } from '../logs/name-rows.ts';
import { ANY_FAILURE } from '../runs/rows.ts';
import {
  cursorPager,
  fetchPage,
  field,
  type FieldSentences,
  inputTime,
  invalidAttributesOf,
  otherProblems,
  problemOf,
  statusOf,
  totalOf,
} from './list-parts.ts';
import {
  callerLine,
  destinationLine,
  durationBar,
  errorLine,
  findRunNames,
  outcomeBadge,
  outcomeWords,
  resourceName,
  type Run,
  type RunNames,
  RUNS_PATH,
} from './run-record.ts';
import { runPage } from './run-page.ts';
import { addressOf, consolePage, empty, recordsTable, time } from './shell.ts';
import type { Console, Visit } from './visit.ts';

const filterNames = ['outcome', 'kind', 'resource_id', 'start_date', 'end_date'] as const;

type Filter = Record<(typeof filterNames)[number], string>;

/** Resources of each kind that the form names, the newest first. The page of any other links to its runs. */
const RESOURCES_MAX = 100;

const kindWords: Record<string, string> = { reactor: 'Reactor', proxy: 'Proxy', transform: 'Transform' };

const HOUR_MS = 3_600_000;

/** Ranges that a link names. */
const ranges = [
  ['Last hour', HOUR_MS],
  ['24 hours', 24 * HOUR_MS],
  ['7 days', 7 * 24 * HOUR_MS],
] as const;

type Resources = { reactors: NamedRow[]; proxies: NamedRow[] };

const choice = (
  input: { name: 'outcome' | 'kind'; label: string; chosen: string; problems: FieldSentences },
  options: readonly (readonly [value: string, text: string])[],
): Html => {
  const { name, label, chosen, problems } = input;
  return html`<label>${label}<select name="${name}"${invalidAttributesOf(name, problems)}><option value="">All</option>${options.map(
    ([value, text]) => html`<option value="${value}"${attribute('selected', value === chosen)}>${text}</option>`,
  )}</select>${problemOf(name, problems)}</label>`;
};

const resourceChoice = (
  chosen: string,
  { reactors, proxies }: Resources,
  chosenName: Html,
  problems: FieldSentences,
): Html => {
  const isListed = [...reactors, ...proxies].some(({ id }) => id === chosen);
  const group = (label: string, rows: readonly NamedRow[]) =>
    rows.length > 0 &&
    html`<optgroup label="${label}">${rows.map(
      ({ id, name }) => html`<option value="${id}"${attribute('selected', id === chosen)}>${name}</option>`,
    )}</optgroup>`;
  return html`<label>Reactor or proxy<select name="resource_id"${invalidAttributesOf('resource_id', problems)}><option value="">All</option>${
    chosen !== '' && !isListed && html`<option value="${chosen}" selected>${chosenName}</option>`
  }${group('Reactors', reactors)}${group('Proxies', proxies)}</select>${problemOf('resource_id', problems)}</label>`;
};

const filterForm = (filter: Filter, resources: Resources, chosenName: Html, problems: FieldSentences): Html => {
  const isFiltered = filterNames.some((name) => filter[name] !== '');
  const times = (name: 'start_date' | 'end_date', label: string) =>
    field({ name, label, value: inputTime(filter[name]), problems, type: 'datetime-local' });
  return html`<form action="${RUNS_PATH}" class="card"><div class="filters even">
${choice({ name: 'outcome', label: 'Outcome', chosen: filter.outcome, problems }, [
  [ANY_FAILURE, 'any failure'],
  ...runOutcomes.map((outcome) => [outcome, outcomeWords[outcome] ?? outcome] as const),
])}
${choice(
  { name: 'kind', label: 'Kind', chosen: filter.kind, problems },
  runKinds.map((kind) => [kind, kindWords[kind] ?? kind] as const),
)}
${resourceChoice(filter.resource_id, resources, chosenName, problems)}
${times('start_date', 'From, in UTC')}
${times('end_date', 'Before, in UTC')}
</div><div class="actions"><button>Filter</button>${isFiltered && html`<a class="button second" href="${RUNS_PATH}">All runs</a>`}</div></form>`;
};

/** Links to all runs and the failed ones, and to ranges of time, with the other filters as they are. */
const chips = (filter: Filter, now: Date): Html => {
  const link = (text: string, change: Partial<Filter>, isCurrent: boolean): Html =>
    html`<a class="chip" href="${addressOf(RUNS_PATH, { ...filter, ...change })}"${isCurrent && html` aria-current="true"`}>${text}</a>`;
  return html`<nav class="chips" aria-label="Filters">${link('All', { outcome: '' }, filter.outcome === '')}${link(
    'Failed',
    { outcome: ANY_FAILURE },
    filter.outcome === ANY_FAILURE,
  )}<span class="gap"></span>${ranges.map(([text, ms]) =>
    link(text, { start_date: new Date(now.getTime() - ms).toISOString(), end_date: '' }, false),
  )}</nav>`;
};

const runsTable = (visit: Visit, runs: readonly Run[], names: RunNames): Html => {
  const longestMs = Math.max(...runs.map(({ duration_ms = 0 }) => duration_ms));
  return recordsTable('Runs', runs, [
    { label: 'When', cell: ({ id, created_at }) => html`<a href="${RUNS_PATH}/${id}">${time(created_at)}</a>` },
    { label: 'Outcome', cell: outcomeBadge },
    {
      label: 'What ran',
      cell: (run) => html`${resourceName(run, names)} <span class="quiet">${kindWords[run.kind] ?? run.kind}</span>`,
    },
    { label: 'Took', cell: ({ duration_ms, outcome }) => durationBar(duration_ms, longestMs, outcome) },
    { label: 'Error', cell: (run) => errorLine(visit, run) },
    { label: 'Destination', cell: destinationLine },
    { label: 'Caller', cell: (run) => callerLine(run, names) },
  ]);
};

const showList = async (visit: Visit) => {
  const filter = Object.fromEntries(filterNames.map((name) => [name, visit.query(name)])) as Filter;
  const start = visit.query('start');
  const db = visit.ctx.db.for(visit.session);
  const [listed, reactors, proxies] = await Promise.all([
    fetchPage<Run>((size) =>
      visit.api({ method: 'GET', url: addressOf('/runs', { ...filter, start, size: String(size) }) }),
    ),
    listNames(db, 'reactor', RESOURCES_MAX),
    listNames(db, 'proxy', RESOURCES_MAX),
  ]);
  const { page, problems } = listed;
  // A chosen resource has its name also where no run of it is found. What is no UUID is an error of the filter.
  const chosen = problems['resource_id'] === undefined && filter.resource_id !== '' ? filter.resource_id : undefined;
  const names = await findRunNames(visit, [
    ...(page?.data ?? []),
    ...(page && chosen !== undefined ? [{ resource_id: chosen }] : []),
  ]);
  const chosenName = resourceName({ kind: '', resource_id: filter.resource_id }, names);
  const total = page && totalOf(page);
  const main = html`<div class="heading"><h1>Runs</h1>${total !== undefined && html`<span class="quiet">${total} found</span>`}</div>
${chips(filter, visit.ctx.now())}
${filterForm(filter, { reactors, proxies }, chosenName, problems)}
${otherProblems(problems, filterNames)}
${page && (page.data.length > 0 ? runsTable(visit, page.data, names) : empty('No runs match.'))}
${cursorPager(RUNS_PATH, filter, { start, page })}
<p class="quiet">A run keeps status, time, version, caller, error, line and trace id. It keeps no arguments, bodies or results.</p>`;
  return { status: statusOf(listed), page: consolePage(visit.session, { title: 'Runs', section: 'Runs', main }) };
};

export const runsPages = (console: Console): void => {
  console.get(RUNS_PATH, showList);
  console.get(`${RUNS_PATH}/:id`, runPage);
};
