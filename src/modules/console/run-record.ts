// A run as the API returns it, with the names of its resource and its caller, and the parts that pages show of it.
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { findNames, type NamedRow } from '../logs/name-rows.ts';
import { isolated, namesOf, shortened } from './list-parts.ts';
import { badge, may } from './shell.ts';
import type { Visit } from './visit.ts';

export const RUNS_PATH = '/console/runs';

export type Run = {
  id: string;
  kind: string;
  resource_id?: string;
  version?: string;
  actor_id?: string;
  actor_type?: string;
  outcome: string;
  status?: number;
  duration_ms?: number;
  cpu_ms?: number;
  error?: string;
  line?: number;
  destination_host?: string;
  destination_status?: number;
  trace_id?: string;
  token_ids: string[];
  created_at: string;
};

export type RunNames = { resources: ReadonlyMap<string, string>; actors: ReadonlyMap<string, string> };

const mapOf = (...rows: NamedRow[][]): Map<string, string> => new Map(rows.flat().map(({ id, name }) => [id, name]));

/** Names as the log has them: `log:read` shows them without the permission to read the record. */
export const findRunNames = async (
  visit: Visit,
  runs: readonly Pick<Run, 'resource_id' | 'actor_id'>[],
): Promise<RunNames> => {
  const db = visit.ctx.db.for(visit.session);
  const ids = [...new Set(runs.flatMap(({ resource_id }) => resource_id ?? []))];
  const find = (kind: string) => (ids.length === 0 ? [] : findNames(db, kind, ids));
  const [reactors, proxies, actors] = await Promise.all([
    find('reactor'),
    find('proxy'),
    namesOf(
      visit,
      runs.map(({ actor_id }) => actor_id),
    ),
  ]);
  return { resources: mapOf(reactors, proxies), actors };
};

export const outcomeWords: Record<string, string> = {
  success: 'success',
  refused: 'refused',
  failed: 'failed',
  crashed: 'crashed',
  timed_out: 'timed out',
  out_of_memory: 'out of memory',
  cancelled: 'cancelled',
  unknown: 'unknown',
};

const outcomeKinds: Record<string, 'good' | 'warn'> = { success: 'good', refused: 'warn', cancelled: 'warn' };

export const outcomeBadge = ({ outcome, status }: Pick<Run, 'outcome' | 'status'>): Html =>
  badge(
    [status, outcomeWords[outcome] ?? outcome].filter((part) => part !== undefined).join(' '),
    outcomeKinds[outcome] ?? 'bad',
  );

export const statusKind = (status: number): 'good' | 'bad' | 'warn' =>
  status >= 500 ? 'bad' : status >= 400 ? 'warn' : 'good';

export const destinationLine = ({ destination_host, destination_status }: Run): HtmlValue =>
  destination_host !== undefined &&
  html`${isolated(destination_host)} ${destination_status === undefined ? html`<span class="quiet">no answer</span>` : badge(String(destination_status), statusKind(destination_status))}`;

const isOfReactor = ({ kind }: Pick<Run, 'kind'>): boolean => kind === 'reactor';

/** The page of what ran; undefined where the role does not open it. @param line of its code. */
export const resourcePath = (
  visit: Pick<Visit, 'session'>,
  { kind, resource_id }: Pick<Run, 'kind' | 'resource_id'>,
  line?: number,
): string | undefined => {
  if (resource_id === undefined) return undefined;
  if (isOfReactor({ kind }))
    return may(visit.session, 'reactor:read')
      ? `/console/reactors/${resource_id}${line === undefined ? '' : `?line=${line}#code`}`
      : undefined;
  return may(visit.session, 'proxy:read') ? `/console/proxies/${resource_id}` : undefined;
};

/** The name of what ran. A deleted resource has its id alone. */
export const resourceName = ({ kind, resource_id }: Pick<Run, 'kind' | 'resource_id'>, names: RunNames): Html => {
  if (resource_id === undefined) return html`${kind === 'proxy' ? 'A destination of the request' : 'none'}`;
  const name = names.resources.get(resource_id);
  return name === undefined ? html`<span class="mono">${shortened(resource_id)}</span>` : isolated(name);
};

/** Error and line, with a link to the line where the role reads the code. */
export const errorLine = (visit: Visit, run: Pick<Run, 'kind' | 'resource_id' | 'error' | 'line'>): Html => {
  const { error, line } = run;
  const path = line === undefined ? undefined : resourcePath(visit, run, line);
  const place = line !== undefined && (path === undefined ? `line ${line}` : html`<a href="${path}">line ${line}</a>`);
  return html`${error !== undefined && html`<span class="mono">${error}</span>`}${error !== undefined && place && ', '}${place}`;
};

export const callerLine = (
  { actor_id, actor_type }: Pick<Run, 'actor_id' | 'actor_type'>,
  names: RunNames,
): HtmlValue => {
  if (actor_id === undefined) return actor_type ?? 'Anonymous client';
  const name = names.actors.get(actor_id);
  return name === undefined
    ? html`<span class="quiet">${actor_type}</span> <span class="mono">${shortened(actor_id)}</span>`
    : html`<span title="${actor_id}">${isolated(name)}</span>`;
};

/** Milliseconds as people read them. */
export const durationText = (ms: number): string =>
  ms < 1_000 ? `${ms.toLocaleString('en')} ms` : `${(ms / 1_000).toLocaleString('en', { maximumFractionDigits: 1 })} s`;

const BAR_WIDTH = 64;
const BAR_HEIGHT = 6;

/** The time of a run, with a bar that is as long as its share of the longest. */
export const durationBar = (ms: number | undefined, longestMs: number, outcome: string): HtmlValue => {
  if (ms === undefined) return undefined;
  const width = Math.max(2, Math.round((BAR_WIDTH * ms) / Math.max(1, longestMs)));
  const kind = outcome === 'success' ? 'used' : outcome === 'refused' ? 'revealed' : 'errors';
  return html`<span class="took">${durationText(ms)}</span> <svg class="chart" width="${BAR_WIDTH}" height="${BAR_HEIGHT}" aria-hidden="true"><rect class="${kind}" width="${width}" height="${BAR_HEIGHT}" rx="2"/></svg>`;
};
