// The list of forwards: requests of proxies that have an idempotency key, and what became of each.
import { html, type Html } from '../../platform/http/html.ts';
import { listNames, type NamedRow } from '../logs/name-rows.ts';
import type { ForwardRecord } from '../proxy/forwards/records.ts';
import { forwardStates } from '../runs/forward-rows.ts';
import { forwardPages } from './forward-page.ts';
import {
  answeredBadge,
  findForwardNames,
  FORWARDS_PATH,
  proxyLine,
  requestLine,
  stateBadge,
} from './forward-record.ts';
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
import { callerLine, resourceName, type RunNames } from './run-record.ts';
import { addressOf, consolePage, empty, recordsTable, time } from './shell.ts';
import type { Console, Visit } from './visit.ts';

const filterNames = ['state', 'proxy_id', 'start_date', 'end_date'] as const;

type Filter = Record<(typeof filterNames)[number], string>;

const CHOICES = [
  ['All', ''],
  ['Unknown', 'unknown'],
] as const;

const filterForm = (
  filter: Filter,
  { proxies, chosen, problems }: { proxies: readonly NamedRow[]; chosen: Html; problems: FieldSentences },
): Html => {
  const isFiltered = filterNames.some((name) => filter[name] !== '');
  const { state, proxy_id } = filter;
  const states = forwardStates.map((each) => [each, each] as const);
  const named = proxies.map(({ id, name }) => [id, name] as const);
  const others = proxy_id === '' || proxies.some(({ id }) => id === proxy_id) ? [] : [[proxy_id, chosen] as const];
  return html`<form action="${FORWARDS_PATH}" class="card"><div class="filters even">
${choiceField({ name: 'state', label: 'State', problems }, optionsOf(states, state))}
${choiceField({ name: 'proxy_id', label: 'Proxy', problems }, optionsOf([...others, ...named], proxy_id))}
${rangeFields(filter, problems)}
</div><div class="actions"><button>Filter</button>${isFiltered && html`<a class="button second" href="${FORWARDS_PATH}">All forwards</a>`}</div></form>`;
};

const forwardsTable = (visit: Visit, forwards: readonly ForwardRecord[], names: RunNames): Html =>
  recordsTable('Forwards', forwards, [
    { label: 'When', cell: ({ id, begun_at }) => html`<a href="${FORWARDS_PATH}/${id}">${time(begun_at)}</a>` },
    { label: 'State', cell: (forward) => html`${stateBadge(forward)} ${answeredBadge(forward)}` },
    {
      label: 'Request',
      cell: (forward) =>
        html`${requestLine(forward)}${forward.replay_of !== undefined && html` <span class="quiet">sent again</span>`}`,
    },
    { label: 'Proxy', cell: (forward) => proxyLine(visit, forward, names) },
    { label: 'Caller', cell: (forward) => callerLine(forward, names) },
  ]);

const showList = async (visit: Visit) => {
  const filter = Object.fromEntries(filterNames.map((name) => [name, visit.query(name)])) as Filter;
  const start = visit.query('start');
  const [listed, proxies] = await Promise.all([
    fetchPage<ForwardRecord>((size) =>
      visit.api({ method: 'GET', url: addressOf('/forwards', { ...filter, start, size: String(size) }) }),
    ),
    listNames(visit.ctx.db.for(visit.session), 'proxy', NAMES_OFFERED_MAX),
  ]);
  const { page, problems } = listed;
  const names = await findForwardNames(visit, page?.data ?? []);
  const chosen = resourceName({ kind: '', resource_id: filter.proxy_id }, names);
  const total = page && totalOf(page);
  const main = html`<div class="heading"><h1>Forwards</h1>${total !== undefined && html`<span class="quiet">${total} found</span>`}</div>
${filterChips(FORWARDS_PATH, { filter, name: 'state', choices: CHOICES, now: visit.ctx.now() })}
${filterForm(filter, { proxies, chosen, problems })}
${otherProblems(problems, filterNames)}
${page && (page.data.length > 0 ? forwardsTable(visit, page.data, names) : empty('No forwards match.'))}
${cursorPager(FORWARDS_PATH, filter, { start, page })}
<p class="quiet">Requests through the proxy that have an idempotency key. One that is unknown was sent, and no response came: the destination may have done it.</p>`;
  return {
    status: statusOf(listed),
    page: consolePage(visit.session, { title: 'Forwards', section: 'Forwards', main }),
  };
};

export const forwardsPages = (console: Console): void => {
  console.get(FORWARDS_PATH, showList);
  forwardPages(console);
};
