// The run pages: lists runs of code and requests of proxies with filters, and shows one.
import { runKinds, runOutcomes } from '../../platform/db/run-rows.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { listNames, type NamedRow } from '../logs/name-rows.ts';
import { ANY_FAILURE } from '../runs/rows.ts';
import { copyMenu } from './copy.ts';
import { idOf } from './forms.ts';
import { findForwardOfRun, FORWARDS_PATH } from './forward-record.ts';
import {
  choiceField,
  cursorPager,
  fetchPage,
  type FieldSentences,
  filterChips,
  NAMES_OFFERED_MAX,
  optionsOf,
  otherProblems,
  rangeFields,
  shortened,
  statusOf,
  totalOf,
} from './list-parts.ts';
import {
  callerLine,
  destinationLine,
  durationBar,
  durationText,
  errorLine,
  findRunNames,
  outcomeBadge,
  outcomeWords,
  resourceName,
  resourcePath,
  type Run,
  type RunNames,
  RUNS_PATH,
} from './run-record.ts';
import { addressOf, badge, consolePage, empty, may, recordsTable, time } from './shell.ts';
import { maskLine, type ShownToken, tokenLink } from './token-parts.ts';
import { bodyOf, type Console, type Outcome, type Visit } from './visit.ts';

// The page of a run: how it ended, where its code failed, where it sent a request, its tokens by mask, and its trace.

/** Tokens of a run that its page shows. */
const TOKENS_MAX = 20;

/** What an outcome means, in a sentence. */
const meanings: Record<string, string> = {
  success: 'It returned, or the destination answered below 500.',
  refused: 'Rules, limits, an expression or the code itself refused the request.',
  failed: 'A destination answered 500 or more, or could not be reached.',
  crashed: 'The code threw an error, or its result could not be read.',
  timed_out: 'It took longer than the limit of time or CPU time.',
  out_of_memory: 'The code needed more memory than its limit.',
  cancelled: 'The caller left before it ended.',
  unknown: 'The process of the server died before it ended.',
};

/** The tokens whose values it got. A role that reads no tokens sees their ids. */
const findTokens = async (visit: Visit, ids: readonly string[]): Promise<Map<string, ShownToken>> => {
  if (ids.length === 0 || !may(visit.session, 'token:read')) return new Map();
  const query = new URLSearchParams([...ids.map((id) => ['id', id] as [string, string]), ['size', String(TOKENS_MAX)]]);
  const answer = await visit.api({ method: 'GET', url: `/tokens?${query.toString()}` });
  // Masks of many large tokens together may be more than one response holds: their ids are shown.
  if (answer.status === 413) return new Map();
  const { data } = bodyOf<{ data: ShownToken[] }>(answer);
  return new Map(data.map((token) => [token.id, token]));
};

/** @param none the sentence where there are none. */
export const tokensCard = async (visit: Visit, token_ids: readonly string[], none: string): Promise<Html> => {
  const ids = token_ids.slice(0, TOKENS_MAX);
  const tokens = await findTokens(visit, ids);
  const mayOpen = may(visit.session, 'token:read');
  const table = recordsTable('Tokens', ids, [
    {
      label: 'Masked value',
      cell: (id) => {
        const token = tokens.get(id);
        return token ? maskLine(token) : html`<span class="quiet">${mayOpen ? 'not found' : 'not shown'}</span>`;
      },
    },
    {
      label: 'Type',
      cell: (id) => {
        const token = tokens.get(id);
        return token && badge(token.type);
      },
    },
    { label: 'Id', cell: (id) => (tokens.has(id) ? tokenLink(id) : html`<span class="mono">${shortened(id)}</span>`) },
  ]);
  return html`<section><h2>Tokens</h2>${
    ids.length === 0 ? html`<p class="quiet">${none}</p>` : table
  }${token_ids.length > ids.length && html`<p class="quiet">and ${token_ids.length - ids.length} more</p>`}</section>`;
};

export const row = (name: string, value: HtmlValue): Html | undefined =>
  value === undefined || value === false ? undefined : html`<dt>${name}</dt><dd>${value}</dd>`;

const runPage = async (visit: Visit): Promise<Outcome> => {
  const id = idOf(visit, 'run');
  const run = bodyOf<Run>(await visit.api({ method: 'GET', url: `/runs/${id}` }));
  const [names, tokens, forward_id] = await Promise.all([
    findRunNames(visit, [run]),
    tokensCard(visit, run.token_ids, 'It got the value of no token.'),
    findForwardOfRun(visit, run),
  ]);
  const path = resourcePath(visit, run);
  const name = resourceName(run, names);
  const { resource_id, trace_id, error, line } = run;
  const main = html`<p class="quiet"><a href="${RUNS_PATH}">Runs</a></p>
<div class="heading"><h1>${name}</h1><span>${outcomeBadge(run)}</span></div>
${copyMenu(visit, { id, call: { path: `/runs/${id}` } })}
<div class="columns"><div>
<section class="card"><h2>What happened</h2><p>${meanings[run.outcome]}</p><dl>
${row('Error', (error !== undefined || line !== undefined) && errorLine(visit, run))}
${row('Destination', destinationLine(run))}
${row('Took', run.duration_ms !== undefined && durationText(run.duration_ms))}
${row('CPU time', run.cpu_ms !== undefined && `${run.cpu_ms} ms`)}
${row('Idempotency key', forward_id !== undefined && html`<a href="${FORWARDS_PATH}/${forward_id}">The record of the request</a>`)}
${row('Trace id', trace_id !== undefined && html`<a class="mono" href="${addressOf('/console/logs', { trace_id })}">${shortened(trace_id)}</a> <span class="quiet">its entries in the log</span>`)}
</dl></section>
${tokens}
</div><section class="card"><h2>Details</h2><dl>
${row('Began', time(run.created_at))}
${row('Kind', run.kind)}
${row('What ran', path === undefined ? name : html`<a href="${path}">${name}</a>`)}
${row('Version', run.version !== undefined && html`<span class="mono">${run.version}</span>`)}
${row('Caller', callerLine(run, names))}
${row('Id', html`<span class="mono">${shortened(run.id)}</span>`)}
</dl>${resource_id !== undefined && html`<p><a href="${addressOf(RUNS_PATH, { resource_id })}">All its runs</a></p>`}</section></div>`;
  return consolePage(visit.session, { title: 'Run', section: 'Runs', main });
};

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
