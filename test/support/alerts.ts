// The alert rules for Prometheus and the dashboard for Grafana that the repository has.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './process.ts';

export const RULES = 'deploy/prometheus/strongroom.rules.yml';
export const rules = readFileSync(join(root, RULES), 'utf8');
type Panel = { title: string; type: string; targets?: { expr: string }[] };
export const dashboard = JSON.parse(readFileSync(join(root, 'deploy/grafana/strongroom.json'), 'utf8')) as {
  panels: Panel[];
  templating: { list: { type: string; query: string }[] };
};

export const alerts = [...rules.matchAll(/- alert: (\w+)\n +expr: >-\n +(.+)\n/g)].map(([, name = '', expr = '']) => ({
  name,
  expr,
}));
export const panels = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({ title, expr })),
);
/** As Grafana sends it. */
export const filledIn = (expr: string): string =>
  expr.replaceAll('$__rate_interval', '1m').replaceAll('$instance', '.*');
