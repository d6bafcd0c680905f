// Reads the usage report, and draws it as inline SVG: sparklines, and stacked bars that are links, with the same as a table.
import { DAY_MS, HOUR_MS } from '../../platform/base/times.ts';
import { html, type Html } from '../../platform/http/html.ts';
import { ANY_FAILURE } from '../runs/rows.ts';
import { RUNS_PATH } from './run-record.ts';
import { addressOf } from './shell.ts';
import { bodyOf, type Visit } from './visit.ts';

/** Kinds in the order of their stack, with their words. */
const shownKinds = [
  ['stored', 'stored'],
  ['used', 'used'],
  ['revealed', 'revealed'],
  ['errors', 'errors'],
] as const;

type ShownKind = (typeof shownKinds)[number][0];

/** What was done from one time to another: tokens by kind, and requests that failed. */
export type Step = Record<ShownKind, number> & { start: Date; end: Date };

const SPARK = { width: 120, height: 28 } as const;

/** A line of values; flat at the bottom where nothing happened. */
export const sparkline = (values: readonly number[], kind: ShownKind): Html => {
  const most = Math.max(1, ...values);
  const stepWidth = SPARK.width / Math.max(1, values.length - 1);
  const points = values.map(
    (value, index) =>
      `${Math.round(index * stepWidth)},${Math.round(SPARK.height - 2 - ((SPARK.height - 4) * value) / most)}`,
  );
  return html`<svg class="chart spark" viewBox="0 0 ${SPARK.width} ${SPARK.height}" width="${SPARK.width}" height="${SPARK.height}" aria-hidden="true"><polyline class="${kind}" points="${points.join(' ')}"/></svg>`;
};

/** At least 24 pixels are a target for a finger (WCAG 2.5.8). */
const COLUMN_WIDTH = 24;

const BAR_GAP = 4;

/** The strip above the bars has the number of errors. */
const TOP = 24;

const BARS = 150;

const LABELS = 18;

const BASE = TOP + BARS;

const stepLabel = ({ start, end }: Pick<Step, 'start' | 'end'>): string => {
  const [day = '', clock = ''] = start.toISOString().split('T');
  return end.getTime() - start.getTime() > 3_600_000 ? day.slice(5) : clock.slice(0, 5);
};

const rangeOf = ({ start, end }: Step) => ({ start_date: start.toISOString(), end_date: end.toISOString() });

/** Targets of the links of a bar, and of the number of errors above it. */
export type BarLinks = { bar: (step: Step) => string; errors?: ((step: Step) => string) | undefined };

/** To the log of the time, and to the runs that failed in it. For roles that read the log. */
export const logLinks = {
  bar: (step: Step): string => addressOf('/console/logs', rangeOf(step)),
  errors: (step: Step): string => addressOf(RUNS_PATH, { outcome: ANY_FAILURE, ...rangeOf(step) }),
} satisfies BarLinks;

const sumOf = (step: Step): number => shownKinds.reduce((sum, [kind]) => sum + step[kind], 0);

const wordsOf = (step: Step): string =>
  shownKinds
    .filter(([kind]) => step[kind] > 0)
    .map(([kind, word]) => `${step[kind].toLocaleString('en')} ${word}`)
    .join(', ') || 'nothing';

const column = (step: Step, index: number, most: number, links: BarLinks | undefined): Html => {
  const x = index * COLUMN_WIDTH;
  let y = BASE;
  const rects = shownKinds.flatMap(([kind]) => {
    if (step[kind] === 0) return [];
    const height = Math.max(1, Math.round((BARS * step[kind]) / most));
    y -= height;
    return [
      html`<rect class="${kind}" x="${x + BAR_GAP / 2}" y="${y}" width="${COLUMN_WIDTH - BAR_GAP}" height="${height}"/>`,
    ];
  });
  const label = `${stepLabel(step)} UTC: ${wordsOf(step)}`;
  const bar = html`<title>${label}</title><rect class="hit" x="${x}" y="${TOP}" width="${COLUMN_WIDTH}" height="${BARS}"/>${rects}`;
  const count = html`<text x="${x + COLUMN_WIDTH / 2}" y="${TOP - 8}">${step.errors}</text>`;
  const failed = html`<rect class="hit" x="${x}" y="0" width="${COLUMN_WIDTH}" height="${TOP}"/>${count}`;
  return html`${links ? html`<a href="${links.bar(step)}" aria-label="${label}">${bar}</a>` : html`<g>${bar}</g>`}${
    step.errors > 0 &&
    (links?.errors
      ? html`<a class="count" href="${links.errors(step)}" aria-label="${stepLabel(step)} UTC: ${step.errors} errors">${failed}</a>`
      : html`<g class="count">${count}</g>`)
  }
`;
};

/** Every so many columns has its time below. */
const LABEL_EVERY = 6;

export const barsChart = (steps: readonly Step[], links: BarLinks | undefined): Html => {
  const most = Math.max(1, ...steps.map(sumOf));
  const width = steps.length * COLUMN_WIDTH;
  return html`<div class="scroll" data-end${!links && html` tabindex="0" role="region" aria-label="Chart"`}><svg class="chart bars" viewBox="0 0 ${width} ${BASE + LABELS}" width="${width}" height="${BASE + LABELS}" role="group" aria-label="Tokens and errors over time">
<line x1="0" x2="${width}" y1="${BASE}" y2="${BASE}"/>
${steps.map((step, index) => column(step, index, most, links))}${steps.map(
    (step, index) =>
      index % LABEL_EVERY === 0 &&
      html`<text class="label" x="${index * COLUMN_WIDTH + BAR_GAP / 2}" y="${BASE + 14}">${stepLabel(step)}</text>`,
  )}</svg></div>`;
};

export const legend = html`<p class="legend">${shownKinds.map(
  ([kind, word]) =>
    html`<span><svg class="chart" width="10" height="10" aria-hidden="true"><rect class="${kind}" width="10" height="10" rx="2"/></svg> ${word}</span> `,
)}</p>`;

/** The numbers of the bars. Steps in which nothing happened are left out. */
export const barsTable = (steps: readonly Step[], links: BarLinks | undefined): Html => {
  const busy = steps.filter((step) => sumOf(step) > 0);
  const cell = (step: Step, kind: ShownKind) => {
    const text = step[kind].toLocaleString('en');
    return kind === 'errors' && links?.errors && step.errors > 0
      ? html`<a href="${links.errors(step)}">${text}</a>`
      : text;
  };
  return html`<details><summary>The same as a table</summary>${
    busy.length === 0
      ? html`<p class="quiet">Nothing happened.</p>`
      : html`<div class="scroll" tabindex="0" role="region" aria-label="Figures"><table class="figures"><thead><tr><th scope="col">From, in UTC</th>${shownKinds.map(
          ([, word]) => html`<th scope="col">${word}</th>`,
        )}</tr></thead><tbody>${busy.map(
          (step) =>
            html`<tr><th scope="row">${links ? html`<a href="${links.bar(step)}">${stepLabel(step)}</a>` : stepLabel(step)}</th>${shownKinds.map(([kind]) => html`<td>${cell(step, kind)}</td>`)}</tr>`,
        )}</tbody></table></div>`
  }</details>`;
};

// Reads the usage report of the API, and fills it up to a step for each hour or day.

export type Metric = {
  start: string;
  kind: string;
  requests: number;
  tokens: number;
  p50_ms?: number;
  p95_ms?: number;
};

export type Report = {
  token_report: { metrics_by_type: Record<string, { count: number }> };
  usage_report: { metrics: Metric[] };
};

export type StepRange = { by: 'hour' | 'day'; steps: number };

export const stepMs = { hour: HOUR_MS, day: DAY_MS } as const;

/** Beginning of the first step, if the last one has a time in it. */
export const beginningOf = ({ by, steps }: StepRange, within: Date): Date =>
  new Date((Math.floor(within.getTime() / stepMs[by]) - (steps - 1)) * stepMs[by]);

/** @throws AppError for a refusal of the API. */
export const readReport = async (
  visit: Visit,
  { from, to, by, application_id }: { from: Date; to?: Date; by: StepRange['by']; application_id?: string },
): Promise<Report> => {
  const range = { from: from.toISOString(), to: to?.toISOString(), by, application_id };
  return bodyOf<Report>(await visit.api({ method: 'GET', url: addressOf('/tenants/self/reports/usage', range) }));
};

/** A step for each hour or day, also for those in which nothing happened. */
export const stepsOf = ({ by, steps }: StepRange, from: Date, metrics: readonly Metric[]): Step[] => {
  const byStart = Map.groupBy(metrics, ({ start }) => Date.parse(start));
  return Array.from({ length: steps }, (_, index) => {
    const start = new Date(from.getTime() + index * stepMs[by]);
    const at = byStart.get(start.getTime()) ?? [];
    const find = (kind: string): Metric | undefined => at.find((metric) => metric.kind === kind);
    return {
      start,
      end: new Date(start.getTime() + stepMs[by]),
      stored: find('stored')?.tokens ?? 0,
      used: find('used')?.tokens ?? 0,
      revealed: find('revealed')?.tokens ?? 0,
      errors: find('failed')?.requests ?? 0,
    };
  });
};
