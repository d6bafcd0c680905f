import { describe, expect, test } from 'vitest';
import { metricDefinitions } from './definitions.ts';
import { createMetrics } from './metrics.ts';
import { addReports, countsOf, type MetricReport, renderMetrics } from './render.ts';

const linesOf = async (reports: MetricReport[][], name: string): Promise<string[]> =>
  (await renderMetrics(reports)).split('\n').filter((line) => line.startsWith(name));

/** The report that a worker sends. */
const sent = async (metrics: ReturnType<typeof createMetrics>): Promise<MetricReport[]> =>
  JSON.parse(JSON.stringify(await metrics.report())) as MetricReport[];

describe('one process', () => {
  test('reads a gauge at each scrape, from all that registered for it', async () => {
    const metrics = createMetrics();
    let waiting = 1;
    metrics.read('strongroom_queue_length', () => [[{ queue: 'lookups' }, waiting]]);
    metrics.read('strongroom_queue_length', async () => [[{ queue: 'lookups' }, 10]]);
    expect(await linesOf([await metrics.report()], 'strongroom_queue_length')).toEqual([
      'strongroom_queue_length{queue="lookups"} 11',
    ]);
    waiting = 5;
    expect(await linesOf([await metrics.report()], 'strongroom_queue_length')).toEqual([
      'strongroom_queue_length{queue="lookups"} 15',
    ]);
  });

  test('leaves out a gauge that cannot be told now, and what is no number', async () => {
    const metrics = createMetrics();
    metrics.read('strongroom_mails_waiting', () => []);
    metrics.read('strongroom_database_waiting', () => [[{}, Number.NaN]]);
    const text = await renderMetrics([await metrics.report()]);
    expect(text).not.toMatch(/^strongroom_(?:mails|database)_waiting/m);
    expect(text).toContain('# TYPE strongroom_mails_waiting gauge');
  });

  test('has every metric of the table, and those of its process only where it is watched', async () => {
    const metrics = createMetrics();
    expect(metrics.describe().map(({ name }) => name)).toEqual(Object.keys(metricDefinitions));
    metrics.watchProcess();
    const text = await renderMetrics([await metrics.report()]);
    for (const { name, help } of metrics.describe()) expect(text).toContain(`# HELP ${name} ${help}\n`);
    expect(text).toMatch(/^process_start_time_seconds \d+/m);
    expect(text).not.toMatch(/ (?:Nan|NaN|null|undefined)$/m);
  });

  test('answers scrapes at the same time alike', async () => {
    const metrics = createMetrics();
    metrics.read('strongroom_queue_length', async () => [[{ queue: 'runs' }, 7]]);
    const reports = await Promise.all([metrics.report(), metrics.report(), metrics.report()]);
    for (const report of reports)
      expect(await linesOf([report], 'strongroom_queue_length')).toEqual(['strongroom_queue_length{queue="runs"} 7']);
  });
});

describe('several processes', () => {
  const worker = (requests: number, oldest: number) => {
    const metrics = createMetrics();
    const labels = { method: 'GET', route: '/tokens/:id' };
    metrics.count('strongroom_requests_total', { ...labels, status: '200' }, requests);
    for (let sent = 0; sent < requests; sent += 1) metrics.observe('strongroom_request_seconds', labels, 0.003);
    metrics.read('strongroom_oldest_unwritten_row_seconds', () => [[{ kind: 'logs' }, oldest]]);
    metrics.read('strongroom_build_info', () => [[{ version: '1' }, 1]]);
    metrics.read('strongroom_tenant_max', () => [[{ limit: 'runs' }, 64]]);
    metrics.read('strongroom_tenant_held', () =>
      Array.from({ length: 40 }, (_, index) => [{ limit: 'runs', tenant_id: `${requests}-${index}` }, 1] as const),
    );
    return sent(metrics);
  };

  test('are added up; of ages the largest counts', async () => {
    const text = await renderMetrics([await worker(3, 0.5), await worker(4, 2)]);
    expect(text).toContain('strongroom_requests_total{method="GET",route="/tokens/:id",status="200"} 7\n');
    expect(text).toContain('strongroom_request_seconds_bucket{le="0.005",method="GET",route="/tokens/:id"} 7\n');
    expect(text).toContain('strongroom_request_seconds_bucket{le="+Inf",method="GET",route="/tokens/:id"} 7\n');
    expect(text).toContain('strongroom_request_seconds_count{method="GET",route="/tokens/:id"} 7\n');
    expect(text).toContain('strongroom_oldest_unwritten_row_seconds{kind="logs"} 2\n');
    expect(text).toContain('strongroom_build_info{version="1"} 1\n');
    expect(text).toContain('strongroom_tenant_max{limit="runs"} 128\n');
  });

  test('have no more tenants with figures of their own than one process', async () => {
    const held = await linesOf([await worker(3, 0), await worker(4, 0)], 'strongroom_tenant_held');
    expect(held).toHaveLength(51);
    expect(held).toContain('strongroom_tenant_held{limit="runs",tenant_id="other"} 30');
  });

  test('that ended leave what they counted, and no gauge', async () => {
    const past = await addReports([countsOf(await worker(3, 9)), countsOf(await worker(4, 9))]);
    const text = await renderMetrics([await worker(5, 1), past]);
    expect(text).toContain('status="200"} 12\n');
    expect(text).toContain('strongroom_oldest_unwritten_row_seconds{kind="logs"} 1\n');
  });
});
