// The home page: what happened in the last day, week or month, what needs attention, and where values went.
import { DAY_MS, HOUR_MS } from '../../platform/base/times.ts';
import { firstIdAt, timeOfId } from '../../platform/crypto/ids.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { KEY_VARIABLE } from '../../platform/http/request-samples.ts';
import { permissions } from '../access/permissions.ts';
import { NEWEST_ENTRIES } from '../logs/logs.ts';
import { STORED_MS } from '../proxy/forwards/records.ts';
import { ANY_FAILURE } from '../runs/rows.ts';
import { copyBox, samplesFor } from './copy.ts';
import { FORWARDS_PATH } from './forward-record.ts';
import {
  countRevealed,
  countUnknownForwards,
  countWaitingInvitations,
  findKeysToWatch,
  findStepsDone,
  type KeyToWatch,
} from './rows.ts';
import { SAMPLE_CARD } from './key-jobs.ts';
import { isolated } from './list-parts.ts';
import { errorLine, findRunNames, resourceName, type Run, type RunNames, RUNS_PATH } from './run-record.ts';
import { addressOf, badge, consolePage, HOME_PATH, may, sectionsOf, time } from './shell.ts';
import {
  barsChart,
  barsTable,
  beginningOf,
  legend,
  logLinks,
  readReport,
  type Report,
  sparkline,
  type Step,
  type StepRange,
  stepsOf,
} from './usage-chart.ts';
import { bodyOf, type Console, type Visit } from './visit.ts';

// What needs attention, on the home page: code that fails, requests without a known outcome, more reveals than usual, keys that can do too much or end soon, and invitations that wait.

/** Keys that end within this time are named. */
const ENDS_SOON_MS = 14 * DAY_MS;

/** Failed runs that are read to be grouped: the largest page of the API. */
const FAILED_MAX = 100;

/** Resources that are named, those with the most failures first. */
const RESOURCES_MAX = 5;

type FailedRuns = { runs: Run[]; total: number; since: string };

/** Runs of the last hour that failed. The run of a transform ends the request of its proxy in the same way: it is no second one. */
const findFailedRuns = async (visit: Visit): Promise<FailedRuns> => {
  const since = new Date(visit.ctx.now().getTime() - HOUR_MS).toISOString();
  const url = addressOf('/runs', { outcome: ANY_FAILURE, start_date: since, size: String(FAILED_MAX) });
  const { data, pagination } = bodyOf<{ data: Run[]; pagination: { total_items: number } }>(
    await visit.api({ method: 'GET', url }),
  );
  return { runs: data, total: pagination.total_items, since };
};

/** The value that most have, the newest of those. */
const mostCommon = <T>(values: readonly T[]): T | undefined =>
  [...Map.groupBy(values, (value) => value)].reduce<{ value: T | undefined; count: number }>(
    (best, [value, { length }]) => (length > best.count ? { value, count: length } : best),
    { value: undefined, count: 0 },
  ).value;

const item = (mark: Html, content: HtmlValue): Html => html`<li>${mark}<div>${content}</div></li>`;

const failedItem = (visit: Visit, runs: readonly Run[], names: RunNames, { total, since }: FailedRuns): Html => {
  const [newest] = runs as [Run];
  const oldest = runs.at(-1) as Run;
  // Runs without a line count where most have none.
  const line = mostCommon(runs.map((run) => run.line));
  const sample = runs.find((run) => run.line === line) ?? newest;
  const list = addressOf(RUNS_PATH, {
    outcome: ANY_FAILURE,
    start_date: since,
    ...(newest.resource_id === undefined ? { kind: newest.kind } : { resource_id: newest.resource_id }),
  });
  const count = `${runs.length}${total > FAILED_MAX ? '+' : ''} ${runs.length === 1 ? 'error' : 'errors'}`;
  return item(
    badge(count, 'bad'),
    html`<a href="${list}">${resourceName(newest, names)}</a> ${errorLine(visit, sample)}, since ${time(oldest.created_at)}`,
  );
};

const failedItems = async (visit: Visit): Promise<Html[]> => {
  if (!may(visit.session, 'log:read')) return [];
  const failed = await findFailedRuns(visit);
  const isOfOwnRequest = new Set(failed.runs.filter(({ kind }) => kind === 'proxy').map(({ trace_id }) => trace_id));
  const runs = failed.runs.filter(({ kind, trace_id }) => kind !== 'transform' || !isOfOwnRequest.has(trace_id));
  if (runs.length === 0) return [];
  const names = await findRunNames(visit, runs);
  return [...Map.groupBy(runs, ({ resource_id }) => resource_id).values()]
    .toSorted((one, other) => other.length - one.length)
    .slice(0, RESOURCES_MAX)
    .map((group) => failedItem(visit, group, names, failed));
};

/** Requests without a known outcome, as long as they can be sent again. */
const unknownItems = async (visit: Visit): Promise<Html[]> => {
  if (!may(visit.session, 'forward:read')) return [];
  const from = visit.ctx.now().getTime() - STORED_MS;
  const { count, oldest_id } = await countUnknownForwards(visit.ctx.db.for(visit.session), firstIdAt(from));
  if (oldest_id === null) return [];
  const list = addressOf(FORWARDS_PATH, { state: 'unknown', start_date: new Date(from).toISOString() });
  return [
    item(
      badge(`${count} unknown`, 'bad'),
      html`<a href="${list}">${count === 1 ? 'A request' : 'Requests'}</a> that may have been done: ask the destination. Since ${time(timeOfId(oldest_id).toISOString())}`,
    ),
  ];
};

/** What is usual is the median of this hour on the days before. */
const USUAL_DAYS = 14;

const ABOVE_USUAL = 3;

/** Fewer are no alarm: a person who opens some cards is none. */
const REVEALS_MIN = 10;

/** The hour that has begun, and the one before: figures come once a minute. */
const HOURS_WATCHED = 2;

const medianOf = (counts: readonly number[]): number =>
  counts.toSorted((one, other) => one - other)[Math.floor(counts.length / 2)] ?? 0;

/** The caller of most of the newest entries of the hour. */
const revealedItem = async (visit: Visit, hour: number, count: number, usual: number): Promise<Html> => {
  const range = { start_date: new Date(hour).toISOString(), end_date: new Date(hour + HOUR_MS).toISOString() };
  const filter = { disclosure: 'revealed', ...range };
  const { data } = bodyOf<{ data: { actor_id?: string; actor_name?: string }[] }>(
    await visit.api({
      method: 'GET',
      url: addressOf('/logs', { ...filter, start: NEWEST_ENTRIES, size: String(FAILED_MAX) }),
    }),
  );
  const most = mostCommon(data.map(({ actor_id }) => actor_id));
  const name = data.find(({ actor_id }) => actor_id === most)?.actor_name;
  return item(
    badge(`${count.toLocaleString('en')} reveals`, 'warn'),
    html`<a href="${addressOf('/console/logs', filter)}">Above the usual ${usual.toLocaleString('en')}</a> in the hour from ${time(range.start_date)}${name !== undefined && html`, most by ${isolated(name)}`}`,
  );
};

const revealedItems = async (visit: Visit): Promise<Html[]> => {
  if (!may(visit.session, 'log:read')) return [];
  const newest = Math.floor(visit.ctx.now().getTime() / HOUR_MS) * HOUR_MS;
  const watched = Array.from({ length: HOURS_WATCHED }, (_, back) => newest - back * HOUR_MS);
  const usualHours = (hour: number) => Array.from({ length: USUAL_DAYS }, (_, day) => hour - (day + 1) * DAY_MS);
  const hours = watched.flatMap((hour) => [hour, ...usualHours(hour)]).map((hour) => new Date(hour));
  const counts = await countRevealed(visit.ctx.db.for(visit.session), hours);
  const items = watched.map(async (hour) => {
    const count = counts.get(hour) ?? 0;
    const usual = medianOf(usualHours(hour).map((each) => counts.get(each) ?? 0));
    return count >= REVEALS_MIN && count > ABOVE_USUAL * usual ? [await revealedItem(visit, hour, count, usual)] : [];
  });
  return (await Promise.all(items)).flat();
};

const keyItem = ({ name, expires_at, application_id, application, permissions: held }: KeyToWatch): Html => {
  const key = html`${name === null ? 'A key' : html`The key ${isolated(name)}`} of <a href="/console/applications/${application_id}">${isolated(application)}</a>`;
  if (expires_at !== null)
    return item(badge('ends soon', 'warn'), html`${key} expires ${time(expires_at.toISOString())}`);
  return held === permissions.length
    ? item(badge('all rights', 'warn'), html`${key} has all permissions and no end`)
    : item(badge('no end'), html`${key} never expires`);
};

const keyItems = async (visit: Visit): Promise<Html[]> => {
  if (!may(visit.session, 'application:read')) return [];
  const now = visit.ctx.now();
  const before = new Date(now.getTime() + ENDS_SOON_MS);
  return (await findKeysToWatch(visit.ctx.db.for(visit.session), { now, before })).map(keyItem);
};

const invitationItems = async (visit: Visit): Promise<Html[]> => {
  if (!may(visit.session, 'tenant:invitation:read')) return [];
  const count = await countWaitingInvitations(visit.ctx.db.for(visit.session), visit.ctx.now());
  if (count === 0) return [];
  return [
    item(
      badge(`${count} waiting`),
      html`<a href="/console/people">${count === 1 ? 'An invitation' : 'Invitations'}</a> not accepted yet`,
    ),
  ];
};

/** Undefined for a role that sees none of it. */
const attentionCard = async (visit: Visit): Promise<Html | undefined> => {
  if (!may(visit.session, 'log:read') && !may(visit.session, 'application:read')) return undefined;
  const items = (
    await Promise.all([unknownItems, failedItems, revealedItems, keyItems, invitationItems].map((find) => find(visit)))
  ).flat();
  return html`<section class="card"><h2>Needs attention</h2>${
    items.length === 0 ? html`<p class="quiet">Nothing, as of now.</p>` : html`<ul class="attention">${items}</ul>`
  }</section>`;
};

// The first steps in a new vault, on the home page, with commands for this vault. They are gone when done.

/** Stores a card for tests. */
const call = { path: '/tokens', json: { type: 'card', data: SAMPLE_CARD } };

const command = (language: string, text: string): Html =>
  html`<details><summary>Store a card with ${language}</summary>${copyBox(language, text)}</details>`;

const step = (isDone: boolean, text: string, path: string): Html =>
  html`<li>${isDone ? html`<span class="done">${text}</span> <span class="quiet">done</span>` : html`<a href="${path}">${text}</a>`}</li>`;

/** Undefined where all is done, and for a role that makes no keys. */
const stepsCard = async (visit: Visit): Promise<Html | undefined> => {
  const { session, ctx } = visit;
  if (!may(session, 'application:create')) return undefined;
  const done = await findStepsDone(ctx.db.for(session));
  const invites = may(session, 'tenant:invitation:create');
  const steps = [
    step(done.token, 'Store a token', '#store'),
    step(done.key, 'Create a key for your server', '/console/applications/new'),
    step(done.run, 'Use it: in a reactor or through a proxy', '/console/reactors'),
    ...(invites ? [step(done.people, 'Invite someone', '/console/people')] : []),
  ];
  if (done.token && done.key && done.run && (done.people || !invites)) return undefined;
  const { curl, JavaScript } = samplesFor(visit, call);
  return html`<section class="card"><h2>First steps</h2><ol class="steps">${steps}</ol>
<div id="store">${command('curl', curl)}
${command('JavaScript', JavaScript)}</div>
<p class="quiet"><code>${KEY_VARIABLE}</code> is an API key of an application with <code>token:create</code>.</p></section>`;
};

type Range = StepRange & { name: string; heading: string };

const ranges: readonly [Range, ...Range[]] = [
  { name: '24h', heading: 'Last 24 hours', by: 'hour', steps: 24 },
  { name: '7d', heading: 'Last 7 days', by: 'day', steps: 7 },
  { name: '30d', heading: 'Last 30 days', by: 'day', steps: 30 },
];

/** Log entries that are read to be grouped by destination: the largest page of the API. */
const ENTRIES_MAX = 100;

const DESTINATIONS_MAX = 6;

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

const tile = (label: string, value: number, spark: Html, note: HtmlValue): Html =>
  html`<section class="card tile"><h2>${label}</h2><p class="figure">${value.toLocaleString('en')}</p>${spark}<p class="quiet">${note}</p></section>`;

const tilesOf = ({ token_report, usage_report }: Report, steps: readonly Step[]): Html => {
  const of = (kind: 'stored' | 'used' | 'revealed' | 'errors') => steps.map((step) => step[kind]);
  const requests = (kind: string) =>
    sum(usage_report.metrics.filter((metric) => metric.kind === kind).map((metric) => metric.requests));
  const tokens = sum(Object.values(token_report.metrics_by_type).map(({ count }) => count));
  const inRequests = (count: number) => `in ${count.toLocaleString('en')} ${count === 1 ? 'request' : 'requests'}`;
  return html`<div class="tiles">
${tile('Tokens', tokens, sparkline(of('stored'), 'stored'), `+${sum(of('stored')).toLocaleString('en')} in this time`)}
${tile('Uses by code and proxy', sum(of('used')), sparkline(of('used'), 'used'), inRequests(requests('used')))}
${tile('Values revealed', sum(of('revealed')), sparkline(of('revealed'), 'revealed'), inRequests(requests('revealed')))}
${tile('Errors', sum(of('errors')), sparkline(of('errors'), 'errors'), `and ${requests('refused').toLocaleString('en')} refused`)}
</div>`;
};

const chartCard = (visit: Visit, { by }: Range, steps: readonly Step[]): Html => {
  const links = may(visit.session, 'log:read') ? logLinks : undefined;
  return html`<section class="card"><div class="heading"><h2>Tokens by ${by}</h2>${legend}</div>
${barsChart(steps, links)}
${links && html`<p class="quiet">A bar leads to the log of its time, the number above it to the runs that failed.</p>`}
${barsTable(steps, links)}</section>`;
};

type Entry = {
  id: string;
  created_at: string;
  destination_host?: string;
  reactor_id?: string;
  outcome: string;
};

/** Entries of values that left, the newest first. */
const findLeft = async (visit: Visit, disclosure: 'used' | 'revealed', from: Date): Promise<Entry[]> => {
  const range = { start_date: from.toISOString(), start: NEWEST_ENTRIES, size: String(ENTRIES_MAX) };
  const url = addressOf('/logs', { disclosure, ...range });
  return bodyOf<{ data: Entry[] }>(await visit.api({ method: 'GET', url })).data;
};

type Destination = { name: HtmlValue; path: string; entries: Entry[] };

/** Destinations of values: hosts, code that sent them nowhere, and callers who saw them. */
const destinationsOf = (used: readonly Entry[], revealed: readonly Entry[], from: Date): Destination[] => {
  const start_date = from.toISOString();
  // A use that failed has a second entry.
  const once = used.filter(({ outcome }) => outcome === 'success');
  const sent = [...Map.groupBy(once, ({ destination_host }) => destination_host ?? '')].map(([host, entries]) => ({
    name: host === '' ? 'Code in the sandbox' : isolated(host),
    path: addressOf('/console/logs', { disclosure: 'used', destination_host: host, start_date }),
    entries,
  }));
  const shown = {
    name: html`<strong>Shown in plain text</strong>`,
    path: addressOf('/console/logs', { disclosure: 'revealed', start_date }),
    entries: [...revealed],
  };
  return [...sent, shown]
    .filter(({ entries }) => entries.length > 0)
    .toSorted((one, other) => ((one.entries[0]?.created_at ?? '') < (other.entries[0]?.created_at ?? '') ? 1 : -1))
    .slice(0, DESTINATIONS_MAX);
};

const leftCard = async (visit: Visit, from: Date): Promise<Html | undefined> => {
  if (!may(visit.session, 'log:read')) return undefined;
  const [used, revealed] = await Promise.all([findLeft(visit, 'used', from), findLeft(visit, 'revealed', from)]);
  const isCut = used.length === ENTRIES_MAX || revealed.length === ENTRIES_MAX;
  const destinations = destinationsOf(used, revealed, from);
  return html`<section class="card"><h2>Where values went</h2>${
    destinations.length === 0
      ? html`<p class="quiet">No value left the vault in this time.</p>`
      : html`<table class="plain"><thead><tr><th scope="col">To</th><th scope="col">Entries</th><th scope="col">Last</th></tr></thead><tbody>${destinations.map(
          ({ name, path, entries }) =>
            html`<tr><td><a href="${path}">${name}</a></td><td>${entries.length}</td><td>${time(entries[0]?.created_at)}</td></tr>`,
        )}</tbody></table>`
  }${isCut && html`<p class="quiet">Of the newest ${ENTRIES_MAX} entries of each kind.</p>`}</section>`;
};

/** For a role that sees no figures: the pages that it opens. */
const placesCard = ({ session }: Visit): Html =>
  html`<section class="card"><h2>What you can open</h2><ul class="places">${sectionsOf(session)
    .filter(([path]) => path !== HOME_PATH)
    .map(([path, name]) => html`<li><a href="${path}">${name}</a></li>`)}</ul></section>`;

const rangeLinks = (current: Range): Html =>
  html`<nav class="chips" aria-label="Range">${ranges.map(
    ({ name, heading }) =>
      html`<a class="chip" href="${addressOf(HOME_PATH, { range: name })}" title="${heading}"${name === current.name && html` aria-current="true"`}>${name}</a>`,
  )}</nav>`;

const showHome = async (visit: Visit): Promise<string> => {
  const { session, ctx } = visit;
  const asked = visit.query('range');
  const range = ranges.find(({ name }) => name === asked) ?? ranges[0];
  const from = beginningOf(range, ctx.now());
  const readsReport = may(session, 'report:read');
  const [report, attention, left, steps] = await Promise.all([
    readsReport ? readReport(visit, { from, by: range.by }) : undefined,
    attentionCard(visit),
    leftCard(visit, from),
    stepsCard(visit),
  ]);
  const shown = report && stepsOf(range, from, report.usage_report.metrics);
  const hasRange = readsReport || left !== undefined;
  const main = html`<div class="heading"><h1>${hasRange ? range.heading : 'Home'}</h1>${hasRange && rangeLinks(range)}</div>
${report && shown && tilesOf(report, shown)}
<div class="columns"><div>${shown && chartCard(visit, range, shown)}${left}${!hasRange && placesCard(visit)}</div>
<div>${attention}${steps}</div></div>
${report && html`<p class="quiet">Figures are added once a minute: the last minute is not in them.</p>`}`;
  return consolePage(session, { title: 'Home', section: 'Home', main });
};

export const homePages = (console: Console): void => {
  console.get(HOME_PATH, showHome);
};
