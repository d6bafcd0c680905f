// The log page: lists and shows entries of GET /logs with its filters.
import {
  type Disclosure,
  disclosures,
  type Operation,
  operations,
  type Outcome,
  outcomes,
  TOKEN_REVEALED,
} from '../../platform/db/audit-record.ts';
import { attribute, html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { tokenTypeNames } from '../tokens/token-types.ts';
import {
  choiceField,
  cursorPager,
  fetchPage,
  field,
  type FieldSentences,
  isolated,
  optionsOf,
  otherProblems,
  rangeFields,
  shortened,
  statusOf,
} from './list-parts.ts';
import { addressOf, badge, consolePage, empty, recordsTable, time } from './shell.ts';
import { tokenLink } from './token-parts.ts';
import { bodyOf, type Console, type Outcome as PageOutcome, type Visit } from './visit.ts';

// A table of log entries, for the log page.

/** A log entry of the API. */
type LogEntry = {
  actor_id?: string;
  actor_type?: string;
  actor_name?: string;
  entity_type: string;
  entity_id: string;
  entity_name?: string;
  entity_ids?: string[];
  operation: string;
  message: string;
  reason?: string;
  created_at: string;
  disclosure: string;
  outcome: string;
  destination_host?: string;
};

const kinds: Record<string, 'good' | 'bad' | 'warn'> = { create: 'good', update: 'warn', delete: 'bad' };

/** What members do without a key is a sign-in, a sign-out or a second factor: the message says which. */
const operationBadge = ({ operation, entity_type }: LogEntry): Html =>
  badge(operation === 'use' && entity_type === 'tenant_member' ? 'sign-in' : operation, kinds[operation]);

/** Entries without an actor id are by the operator or by the server itself. */
const actorLine = ({ actor_id, actor_type, actor_name: name }: LogEntry): HtmlValue => {
  if (actor_id === undefined) return actor_type === 'operator' ? 'Operator' : 'System';
  return html`${name === undefined ? html`<span class="mono">${shortened(actor_id)}</span>` : html`<span title="${actor_id}">${isolated(name)}</span>`}
<span class="quiet">${actor_type}</span>`;
};

const entityOf = ({ entity_type, entity_id, entity_name, entity_ids = [] }: LogEntry): Html => {
  if (entity_ids.length > 1) return html`${entity_ids.length} on a page`;
  if (tokenTypeNames.includes(entity_type)) return tokenLink(entity_id);
  return entity_name === undefined
    ? html`<span class="mono">${shortened(entity_id)}</span>`
    : html`<span title="${entity_id}">${isolated(entity_name)}</span>`;
};

const entityLine = (entry: LogEntry, displayNames: ReadonlyMap<string, string>): Html =>
  html`<span class="quiet">${displayNames.get(entry.entity_type) ?? entry.entity_type}</span><br>${entityOf(entry)}`;

const outcomeKinds: Record<string, 'bad' | 'warn'> = { refused: 'bad', failed: 'bad', replayed: 'warn' };

/** The message. A revealed value and an unsuccessful operation stand out. */
const messageLine = ({ message, outcome, reason }: LogEntry): Html =>
  html`${message === TOKEN_REVEALED ? badge(message, 'warn') : message}${
    outcome !== 'success' && html` ${badge(outcome, outcomeKinds[outcome])}`
  }${reason !== undefined && html`<br><span class="quiet">${isolated(reason)}</span>`}`;

/** @param displayNames of entity types. */
const logTable = (entries: readonly LogEntry[], displayNames: ReadonlyMap<string, string>): Html =>
  recordsTable<LogEntry>('Log', entries, [
    { label: 'When', cell: ({ created_at }) => time(created_at) },
    { label: 'Who', cell: actorLine },
    { label: 'Operation', cell: operationBadge },
    { label: 'What', cell: (entry) => entityLine(entry, displayNames) },
    { label: 'Message', cell: messageLine },
    { label: 'Value', cell: ({ disclosure }) => disclosure !== 'none' && badge(disclosure) },
    { label: 'Sent to', cell: ({ destination_host }) => destination_host ?? '' },
  ]);

const PATH = '/console/logs';

const EXPORT_PATH = '/console/logs/export';

const filterNames = [
  'entity_type',
  'entity_id',
  'actor_id',
  'operation',
  'outcome',
  'disclosure',
  'trace_id',
  'destination_host',
  'start_date',
  'end_date',
] as const;

type Filter = Record<(typeof filterNames)[number], string>;

type EntityType = { display_name: string; value: string };

const filterForm = (filter: Filter, types: readonly EntityType[], problems: FieldSentences): Html => {
  const choice = (
    name: 'operation' | 'outcome' | 'disclosure',
    label: string,
    values: readonly (Operation | Outcome | Disclosure)[],
  ) =>
    choiceField(
      { name, label, problems },
      optionsOf(
        values.map((value) => [value, value] as const),
        filter[name],
      ),
    );
  const isFiltered = filterNames.some((name) => filter[name] !== '');
  return html`<details class="card"${attribute('open', isFiltered)}><summary>Filter by what, who, operation or time</summary>
<form action="${PATH}"><div class="filters even">
${choiceField(
  { name: 'entity_type', label: 'What', problems },
  optionsOf(
    types.map(({ display_name, value }) => [value, display_name] as const),
    filter.entity_type,
  ),
)}
${field({ name: 'entity_id', label: 'Id of what', value: filter.entity_id, problems })}
${field({ name: 'actor_id', label: 'Id of who', value: filter.actor_id, problems })}
${choice('operation', 'Operation', operations)}
${choice('outcome', 'Outcome', outcomes)}
${choice('disclosure', 'Value', disclosures)}
${field({ name: 'trace_id', label: 'Trace id', value: filter.trace_id, problems })}
${field({ name: 'destination_host', label: 'Sent to', value: filter.destination_host, problems })}
${rangeFields(filter, problems)}
</div><div class="actions"><button>Filter</button>${isFiltered && html`<a class="button second" href="${PATH}">All entries</a>`}</div>
</form></details>`;
};

const readFilter = (visit: Visit): Filter =>
  Object.fromEntries(filterNames.map((name) => [name, visit.query(name)])) as Filter;

/** All entries of the filter, as the API exports them: each cell is text for spreadsheets. */
const exportEntries = async (visit: Visit): Promise<PageOutcome> => {
  const filter = readFilter(visit);
  const file = await visit.actAs({
    method: 'GET',
    url: addressOf('/logs', filter),
    headers: { accept: 'text/csv' },
    payloadAsStream: true,
  });
  if (file.statusCode === 200) return { file, name: `log-${visit.ctx.now().toISOString().slice(0, 10)}.csv` };
  file.stream().destroy();
  // The page says what is wrong with a filter.
  if (file.statusCode === 400) return { seeOther: addressOf(PATH, filter) };
  return bodyOf({ status: file.statusCode, headers: file.headers, body: undefined, ms: 0 });
};

export const logsPages = (console: Console): void => {
  const show = async (visit: Visit) => {
    const filter = readFilter(visit);
    const start = visit.query('start');
    const [listed, types] = await Promise.all([
      fetchPage<LogEntry>((size) =>
        visit.api({ method: 'GET', url: addressOf('/logs', { ...filter, start, size: String(size) }) }),
      ),
      visit.api({ method: 'GET', url: '/logs/entity-types' }),
    ]);
    const entityTypes = bodyOf<EntityType[]>(types);
    const { page, problems } = listed;
    const displayNames = new Map(entityTypes.map(({ value, display_name }) => [value, display_name]));
    const main = html`<div class="heading"><h1>Logs</h1>${page && html`<a class="button second small" href="${addressOf(EXPORT_PATH, filter)}">Export as CSV</a>`}</div>
${filterForm(filter, entityTypes, problems)}
${otherProblems(problems, filterNames)}
${page && (page.data.length > 0 ? logTable(page.data, displayNames) : empty('No entries match.'))}
${cursorPager(PATH, filter, { start, page })}`;
    return { status: statusOf(listed), page: consolePage(visit.session, { title: 'Logs', section: 'Logs', main }) };
  };

  console.get(PATH, show);
  console.get(EXPORT_PATH, exportEntries);
};
