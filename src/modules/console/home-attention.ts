// What needs attention, on the home page: code that fails, requests without a known outcome, more reveals than usual, keys that can do too much or end soon, and invitations that wait.
import { DAY_MS, HOUR_MS } from '../../platform/base/times.ts';
import { firstIdAt, timeOfId } from '../../platform/crypto/ids.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { permissions } from '../access/permissions.ts';
import { ANY_FAILURE } from '../runs/rows.ts';
import { FORWARDS_PATH } from './forward-record.ts';
import {
  countRevealed,
  countUnknownForwards,
  countWaitingInvitations,
  findKeysToWatch,
  type KeyToWatch,
} from './home-rows.ts';
import { NEWEST_ENTRIES } from '../logs/logs.ts';
import { STORED_MS } from '../proxy/forwards/records.ts';
import { isolated } from './list-parts.ts';
import { errorLine, findRunNames, resourceName, type Run, type RunNames, RUNS_PATH } from './run-record.ts';
import { addressOf, badge, may, time } from './shell.ts';
import { bodyOf, type Visit } from './visit.ts';

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
export const attentionCard = async (visit: Visit): Promise<Html | undefined> => {
  if (!may(visit.session, 'log:read') && !may(visit.session, 'application:read')) return undefined;
  const items = (
    await Promise.all([unknownItems, failedItems, revealedItems, keyItems, invitationItems].map((find) => find(visit)))
  ).flat();
  return html`<section class="card"><h2>Needs attention</h2>${
    items.length === 0 ? html`<p class="quiet">Nothing, as of now.</p>` : html`<ul class="attention">${items}</ul>`
  }</section>`;
};
