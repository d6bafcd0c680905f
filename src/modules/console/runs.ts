// The run pages: lists runs of code and requests of proxies with filters, and shows one.
import { runKinds, runOutcomes } from '../../platform/db/run-rows.ts';
import { html, type Html } from '../../platform/http/html.ts';
import { listNames, type NamedRow } from '../logs/name-rows.ts';
import { ANY_FAILURE } from '../runs/rows.ts';
import {
  choiceField,
  cursorPager,
  fetchPage,
  NAMES_OFFERED_MAX,
  type FieldSentences,
  filterChips,
  optionsOf,
  otherProblems,
  rangeFields,
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

const kindWords: Record<string, string> = { reactor: 'Reactor', proxy: 'Proxy', transform: 'Transform' };

type Resources = { reactors: NamedRow[]; proxies: NamedRow[] };

const filterForm = (
  filter: Filter,
  { reactors, proxies }: Resources,
  chosenName: Html,
  problems: FieldSentences,
): Html => {
  const isFiltered = filterNames.some((name) => filter[name] !== '');
  const { outcome, kind, resource_id } = filter;
  const isListed = [...reactors, ...proxies].some(({ id }) => id === resource_id);
  const named = (rows: readonly NamedRow[]) =>
    optionsOf(
      rows.map(({ id, name }) => [id, name] as const),
      resource_id,
    );
  const group = (label: string, rows: readonly NamedRow[]) =>
    rows.length > 0 && html`<optgroup label="${label}">${named(rows)}</optgroup>`;
  return html`<form action="${RUNS_PATH}" class="card"><div class="filters even">
${choiceField({ name: 'outcome', label: 'Outcome', problems }, optionsOf([[ANY_FAILURE, 'any failure'], ...runOutcomes.map((each) => [each, outcomeWords[each] ?? each] as const)], outcome))}
${choiceField(
  { name: 'kind', label: 'Kind', problems },
  optionsOf(
    runKinds.map((each) => [each, kindWords[each] ?? each] as const),
    kind,
  ),
)}
${choiceField({ name: 'resource_id', label: 'Reactor or proxy', problems }, [
  resource_id !== '' && !isListed && optionsOf([[resource_id, chosenName]], resource_id),
  group('Reactors', reactors),
  group('Proxies', proxies),
])}
${rangeFields(filter, problems)}
</div><div class="actions"><button>Filter</button>${isFiltered && html`<a class="button second" href="${RUNS_PATH}">All runs</a>`}</div></form>`;
};

/** All runs, and the failed ones. */
const CHOICES = [
  ['All', ''],
  ['Failed', ANY_FAILURE],
] as const;

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
    listNames(db, 'reactor', NAMES_OFFERED_MAX),
    listNames(db, 'proxy', NAMES_OFFERED_MAX),
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
${filterChips(RUNS_PATH, { filter, name: 'outcome', choices: CHOICES, now: visit.ctx.now() })}
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
