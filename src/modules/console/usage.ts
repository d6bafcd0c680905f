// The usage page: 30 days by day, or one day by hour, drawn and as a table, of all applications or of one.
import { attribute, html, type Html } from '../../platform/http/html.ts';
import { listNames, type NamedRow } from '../logs/name-rows.ts';
import { uuid } from './forms.ts';
import { durationText } from './run-record.ts';
import { addressOf, consolePage, may, recordsTable } from './shell.ts';
import {
  type BarLinks,
  barsChart,
  barsTable,
  beginningOf,
  legend,
  logLinks,
  type Metric,
  readReport,
  type Step,
  stepMs,
  type StepRange,
  stepsOf,
} from './usage-chart.ts';
import type { Console, Visit } from './visit.ts';

const PATH = '/console/usage';

/** Days, because a bar by hour would be a pixel wide in a month: each day leads to its hours. */
const ranges = { day: { by: 'day', steps: 30 }, hour: { by: 'hour', steps: 24 } } as const satisfies Record<
  StepRange['by'],
  StepRange
>;

/** Applications that the form names, the newest. */
const APPLICATIONS_MAX = 100;

const kinds = [
  ['stored', 'Stored'],
  ['used', 'Used by code and proxy'],
  ['revealed', 'Revealed'],
  ['masked', 'Read as a mask'],
  ['refused', 'Refused'],
  ['failed', 'Failed'],
] as const;

const dateText = (at: Date): string => at.toISOString().slice(0, 10);

/** The beginning of a day of this century, of a text such as `2026-11-27`; undefined for anything else and for days to come. */
const dayOf = (text: string, now: Date): Date | undefined => {
  const day = new Date(/^20\d{2}-\d{2}-\d{2}$/.test(text) ? text : Number.NaN);
  return Number.isNaN(day.getTime()) || day > now ? undefined : day;
};

const sumOf = (metrics: readonly Metric[], name: 'requests' | 'tokens'): string =>
  metrics.reduce((sum, metric) => sum + metric[name], 0).toLocaleString('en');

/** Percentiles of steps do not add up: the least and the greatest of them are shown. */
const tookText = (metrics: readonly Metric[]): string => {
  const times = metrics.flatMap(({ p95_ms }) => p95_ms ?? []);
  if (times.length === 0) return '';
  const [least, most] = [Math.min(...times), Math.max(...times)].map((ms) => durationText(Math.round(ms)));
  return least === most ? (least as string) : `${least} to ${most}`;
};

const kindsTable = (metrics: readonly Metric[], { by }: StepRange): Html => {
  const byKind = Map.groupBy(metrics, ({ kind }) => kind);
  const of = (kind: string): readonly Metric[] => byKind.get(kind) ?? [];
  return recordsTable('Usage by kind', kinds, [
    { label: 'What', cell: ([, words]) => words },
    { label: 'Requests', cell: ([kind]) => sumOf(of(kind), 'requests') },
    { label: 'Tokens', cell: ([kind]) => sumOf(of(kind), 'tokens') },
    { label: `95 % took at most, by ${by}`, cell: ([kind]) => tookText(of(kind)) },
  ]);
};

type Shown = { range: StepRange; day: Date; application_id: string | undefined };

const pathOf = ({ range, day, application_id }: Shown): string =>
  addressOf(PATH, { by: range.by, to: dateText(day), application_id });

const moved = (shown: Shown, days: number): Shown => ({
  ...shown,
  day: new Date(shown.day.getTime() + days * stepMs.day),
});

const rangeLinks = (shown: Shown, now: Date): Html => {
  const days = shown.range.by === 'day' ? ranges.day.steps : 1;
  const later = moved(shown, days);
  const newest = dayOf(dateText(now), now) ?? now;
  return html`<nav class="chips" aria-label="Range"><a class="chip" href="${pathOf(moved(shown, -days))}">Earlier</a>${
    shown.day < newest &&
    html`<a class="chip" href="${pathOf(later.day > newest ? { ...shown, day: newest } : later)}">Later</a>`
  }${Object.values(ranges).map(
    (range) =>
      html`<a class="chip" href="${pathOf({ ...shown, range })}"${range.by === shown.range.by && html` aria-current="true"`}>By ${range.by}</a>`,
  )}</nav>`;
};

const applicationForm = ({ range, day, application_id }: Shown, applications: readonly NamedRow[]): Html =>
  html`<form action="${PATH}" class="filters"><input type="hidden" name="by" value="${range.by}"><input type="hidden" name="to" value="${dateText(day)}">
<label>Application<select name="application_id"><option value="">All requests</option>${
    application_id !== undefined &&
    !applications.some(({ id }) => id === application_id) &&
    html`<option value="${application_id}" selected>${application_id}</option>`
  }${applications.map(
    ({ id, name }) => html`<option value="${id}"${attribute('selected', id === application_id)}>${name}</option>`,
  )}</select></label><div class="actions"><button class="second">Show</button></div></form>`;

const linksOf = ({ session }: Visit, shown: Shown): BarLinks | undefined => {
  const log = may(session, 'log:read') ? logLinks : undefined;
  return shown.range.by === 'hour'
    ? log
    : { ...log, bar: ({ start }: Step) => pathOf({ ...shown, range: ranges.hour, day: start }) };
};

const showUsage = async (visit: Visit): Promise<string> => {
  const { session, ctx } = visit;
  const now = ctx.now();
  const range = visit.query('by') === 'hour' ? ranges.hour : ranges.day;
  const day = dayOf(visit.query('to'), now) ?? (dayOf(dateText(now), now) as Date);
  const asked = visit.query('application_id');
  const application_id = uuid.test(asked) ? asked.toLowerCase() : undefined;
  const shown = { range, day, application_id };
  const to = new Date(day.getTime() + stepMs.day);
  const from = beginningOf(range, new Date(to.getTime() - 1));
  const [{ usage_report }, applications] = await Promise.all([
    readReport(visit, { from, to, by: range.by, ...(application_id !== undefined && { application_id }) }),
    may(session, 'application:read') ? listNames(ctx.db.for(session), 'application', APPLICATIONS_MAX) : undefined,
  ]);
  const steps = stepsOf(range, from, usage_report.metrics);
  const links = linksOf(visit, shown);
  const heading =
    range.by === 'hour' ? `Usage of ${dateText(day)}` : `Usage from ${dateText(from)} to ${dateText(day)}`;
  const main = html`<div class="heading"><h1>${heading}</h1>${rangeLinks(shown, now)}</div>
${applications && applicationForm(shown, applications)}
<section class="card"><div class="heading"><h2>Tokens by ${range.by}</h2>${legend}</div>
${barsChart(steps, links)}
<p class="quiet">Days and hours in UTC. ${range.by === 'day' && 'A bar leads to the hours of its day.'}</p>
${barsTable(steps, links)}</section>
${kindsTable(usage_report.metrics, range)}
<p class="quiet">A request counts once for each kind, a token once in a request. Figures are added once a minute.</p>`;
  return consolePage(session, { title: 'Usage', section: 'Usage', main });
};

export const usagePages = ({ get }: Console): void => {
  get(PATH, showUsage);
};
