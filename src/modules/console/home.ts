// The home page: what happened in the last day, week or month, what needs attention, and where values went.
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { attentionCard } from './home-attention.ts';
import { stepsCard } from './home-steps.ts';
import { NEWEST_ENTRIES } from '../logs/logs.ts';
import { isolated } from './list-parts.ts';
import { addressOf, consolePage, HOME_PATH, may, sectionsOf, time } from './shell.ts';
import { barsChart, barsTable, legend, logLinks, sparkline, type Step } from './usage-chart.ts';
import { beginningOf, type Report, readReport, type StepRange, stepsOf } from './usage-report.ts';
import { bodyOf, type Console, type Visit } from './visit.ts';

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
