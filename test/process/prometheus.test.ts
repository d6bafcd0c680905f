// A real Prometheus scrapes a real server, and answers every query of the alert rules and the dashboard.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { alerts, filledIn, panels, RULES } from '../support/alerts.ts';
import { freePort, root, type ServerProcess, spawnServer, untilReady } from '../support/process.ts';
import { isInstalled } from '../support/programs.ts';

describe.skipIf(!isInstalled('prometheus'))('Prometheus', () => {
  /** Nothing of these happens here: no request failed, and none was sent to a destination. */
  const WITHOUT_DATA = ['StrongroomErrors', 'StrongroomDestinationsFail'];
  const WAIT = { timeout: 60_000, interval: 250 };
  let directory: string;
  let server: ServerProcess;
  let prometheus: ChildProcess;
  let url: string;

  type Result = { status: string; error?: string; data: any };
  const api = async (path: string): Promise<Result> => {
    const response = await fetch(`${url}/api/v1/${path}`);
    return (await response.json()) as Result;
  };
  const query = (expr: string): Promise<Result> => api(`query?query=${encodeURIComponent(expr)}`);

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'strongroom-prometheus-'));
    const METRICS_PORT = String(await freePort());
    server = await spawnServer(join(directory, 'data'), { METRICS_PORT, WORKERS: '2' });
    await untilReady(server);
    // The configuration that we ship, for this port and in a hurry.
    const config = readFileSync(join(root, 'deploy/prometheus/prometheus.yml'), 'utf8');
    expect(config).toContain('127.0.0.1:9464');
    writeFileSync(
      join(directory, 'prometheus.yml'),
      config.replace('127.0.0.1:9464', `127.0.0.1:${METRICS_PORT}`).replaceAll('_interval: 15s', '_interval: 1s'),
    );
    cpSync(join(root, RULES), join(directory, 'strongroom.rules.yml'));
    const address = `127.0.0.1:${await freePort()}`;
    url = `http://${address}`;
    prometheus = spawn(
      'prometheus',
      [
        `--config.file=${join(directory, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(directory, 'tsdb')}`,
        `--web.listen-address=${address}`,
      ],
      { stdio: 'ignore' },
    );
    while (
      !(await fetch(`${url}/-/ready`).then(
        ({ ok }) => ok,
        () => false,
      ))
    )
      await pause(50);
  });

  afterAll(async () => {
    prometheus.kill();
    if (prometheus.exitCode === null) await once(prometheus, 'exit');
    server.child.kill();
    await server.exited;
    rmSync(directory, { recursive: true, force: true });
  });

  test('accepts the rules, the configuration and the text of the server', async () => {
    for (const args of [
      ['check', 'rules', RULES],
      ['check', 'config', 'deploy/prometheus/prometheus.yml'],
    ])
      expect(execFileSync('promtool', args, { cwd: root, encoding: 'utf8' })).toContain('SUCCESS');
    const target = async () => (await api('targets')).data.activeTargets[0];
    await expect.poll(async () => (await target()).health, WAIT).toBe('up');
    expect((await target()).lastError).toBe('');
    const text = await (await fetch((await target()).scrapeUrl)).text();
    // Exits with an error where it would not parse, or a name or a help text is wrong.
    expect(execFileSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' })).toBe('');
  });

  test('answers the queries of every alert, with data where there is some', async () => {
    // A rate needs two scrapes; the first sweep comes after 15 seconds.
    await expect.poll(async () => (await query('min_over_time(up[10s])')).data.result.length, WAIT).toBe(1);
    await expect
      .poll(
        async () => (await query('max(strongroom_sweep_last_success_timestamp_seconds) > 0')).data.result.length,
        WAIT,
      )
      .toBe(1);
    for (const { name, expr } of alerts) {
      expect((await query(expr)).status, name).toBe('success');
      const [, measured = ''] = /^(.+) (?:>|==) [\d.]+$/.exec(expr) ?? [];
      const found = await query(measured);
      expect(found.status, name).toBe('success');
      if (!WITHOUT_DATA.includes(name)) expect(found.data.result.length, name).toBeGreaterThan(0);
    }
    const evaluated = async () => (await api('rules')).data.groups.flatMap((group: any) => group.rules);
    await expect
      .poll(async () => (await evaluated()).map(({ health }: any) => health), WAIT)
      .toEqual(alerts.map(() => 'ok'));
    const firing = (await evaluated()).filter(({ state }: any) => state === 'firing').map(({ name }: any) => name);
    expect(firing).toEqual([]);
  });

  test('answers every query of the dashboard', async () => {
    const failed: unknown[] = [];
    for (const { title, expr } of panels) {
      const { status, error } = await query(filledIn(expr));
      if (status !== 'success') failed.push([title, error]);
    }
    expect(failed).toEqual([]);
    for (const filled of ['Requests', 'Latency', 'Connections of the pool', 'Limits in use', 'Workers', 'Memory'])
      for (const { expr } of panels.filter(({ title }) => title === filled))
        expect((await query(filledIn(expr))).data.result.length, expr).toBeGreaterThan(0);
  });
});
