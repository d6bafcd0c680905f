// The alert rules and the dashboard name only metrics that exist. A real Prometheus reads them in test/process.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createMetrics } from '../src/platform/metrics/metrics.ts';
import { alerts, dashboard, panels, rules } from './support/alerts.ts';
import { root } from './support/process.ts';

const page = readFileSync(join(root, 'docs/operations/metrics.md'), 'utf8');

/** Names of metrics in a query, those of histograms without their suffix. */
const namesIn = (expr: string): string[] =>
  [...expr.matchAll(/\b(?:strongroom|process|nodejs)_\w+/g)].map(([name]) =>
    name.replace(/_(?:bucket|sum|count)$/, ''),
  );

const known = (() => {
  const metrics = createMetrics();
  metrics.watchProcess();
  return new Set(metrics.describe().map(({ name }) => name));
})();

test('rules and dashboard name only metrics that exist', () => {
  expect(alerts.length).toBe(rules.match(/alert:/g)?.length);
  expect(panels.length).toBeGreaterThan(30);
  const queries = dashboard.templating.list.map(({ query }) => query);
  const all = [...alerts, ...panels].map(({ expr }) => expr).concat(queries);
  expect(all.flatMap(namesIn).filter((name) => !known.has(name))).toEqual([]);
});

test('every metric of ours is in the dashboard', () => {
  const shown = new Set(
    [...panels.map(({ expr }) => expr), ...dashboard.templating.list.map(({ query }) => query)].flatMap(namesIn),
  );
  expect([...known].filter((name) => name.startsWith('strongroom_') && !shown.has(name))).toEqual([]);
});

test('the page of metrics says what to do for each alert', () => {
  const headings = [...page.matchAll(/^### (\w+)$/gm)].map(([, name]) => name);
  expect(headings.toSorted()).toEqual(alerts.map(({ name }) => name).toSorted());
});
