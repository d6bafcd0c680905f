// The runs of a reactor in the last 24 hours as bars, with the same as a table, and links to the pages of runs.
import { HOUR_MS } from '../../platform/base/times.ts';
import { firstIdAt } from '../../platform/crypto/ids.ts';
import { html, type Html } from '../../platform/http/html.ts';
import { ANY_FAILURE, CHARTED_MAX, countRunsByHour } from '../runs/rows.ts';
import { RUNS_PATH } from './run-record.ts';
import { addressOf, may } from './shell.ts';
import type { Visit } from './visit.ts';

const HOURS = 24;

const outcomes = ['success', 'refused', 'failed'] as const;

type Outcome = (typeof outcomes)[number];

/** Colours of the bars: classes of charts. */
const kinds: Record<Outcome, string> = { success: 'used', refused: 'revealed', failed: 'errors' };

type Hour = Record<Outcome, number> & { start: Date };

const BAR = 20;
const GAP = 3;
const HEIGHT = 60;

const sumOf = (hour: Hour): number => hour.success + hour.refused + hour.failed;

const clock = ({ start }: Hour): string => start.toISOString().slice(11, 16);

const bar = (hour: Hour, index: number, most: number): Html => {
  let y = HEIGHT;
  return html`<g><title>From ${clock(hour)} UTC: ${hour.success} success, ${hour.refused} refused, ${hour.failed} failed</title>${outcomes.map(
    (outcome) => {
      if (hour[outcome] === 0) return undefined;
      const height = Math.max(2, Math.round((HEIGHT * hour[outcome]) / most));
      y -= height;
      return html`<rect class="${kinds[outcome]}" x="${index * BAR}" y="${y}" width="${BAR - GAP}" height="${height}"/>`;
    },
  )}</g>`;
};

const table = (hours: readonly Hour[]): Html =>
  html`<details><summary>The same as a table</summary><div class="scroll" tabindex="0" role="region" aria-label="Runs by hour"><table class="figures"><thead><tr><th scope="col">From, in UTC</th>${outcomes.map(
    (outcome) => html`<th scope="col">${outcome}</th>`,
  )}</tr></thead><tbody>${hours
    .filter((hour) => sumOf(hour) > 0)
    .map(
      (hour) =>
        html`<tr><th scope="row">${clock(hour)}</th>${outcomes.map((outcome) => html`<td>${hour[outcome].toLocaleString('en')}</td>`)}</tr>`,
    )}</tbody></table></div></details>`;

/** Undefined for a role that does not read the log. */
export const runsCard = async (visit: Visit, reactor_id: string): Promise<Html | undefined> => {
  if (!may(visit.session, 'log:read')) return undefined;
  const at = visit.ctx.now();
  const from = new Date(at.getTime() - HOURS * HOUR_MS);
  const counted = await countRunsByHour(visit.ctx.db.for(visit.session), {
    resource_id: reactor_id,
    from: firstIdAt(from.getTime()),
    at,
  });
  // The oldest first. Clocks of several servers differ a little: what seems to come is of the newest hour.
  const hours = Array.from({ length: HOURS }, (_, index): Hour => ({
    start: new Date(from.getTime() + index * HOUR_MS),
    success: 0,
    refused: 0,
    failed: 0,
  }));
  for (const { hour, outcome, count } of counted) {
    const bucket = hours[HOURS - 1 - Math.min(HOURS - 1, Math.max(0, hour))];
    if (bucket) bucket[outcome] += count;
  }
  const total = hours.reduce((sum, hour) => sum + sumOf(hour), 0);
  const failed = hours.reduce((sum, hour) => sum + hour.failed, 0);
  const most = Math.max(1, ...hours.map(sumOf));
  const words = `${total.toLocaleString('en')} ${total === 1 ? 'run' : 'runs'}, ${failed.toLocaleString('en')} failed`;
  const path = (outcome: string): string =>
    addressOf(RUNS_PATH, { outcome, resource_id: reactor_id, start_date: from.toISOString() });
  return html`<section class="card" id="runs"><div class="heading"><h2>Runs <span class="quiet">24 h: ${words}</span></h2>
<nav class="chips" aria-label="Runs"><a class="chip" href="${path('')}">All</a><a class="chip" href="${path(ANY_FAILURE)}">Failed</a></nav></div>
${
  total === 0
    ? html`<p class="quiet">No runs in the last 24 hours.</p>`
    : html`<svg class="chart day" viewBox="0 0 ${HOURS * BAR} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Runs of 24 hours: ${words}">${hours.map(
        (hour, index) => bar(hour, index, most),
      )}</svg>
${total >= CHARTED_MAX && html`<p class="quiet">The newest ${CHARTED_MAX.toLocaleString('en')} runs. There are more.</p>`}
${table(hours)}`
}</section>`;
};
