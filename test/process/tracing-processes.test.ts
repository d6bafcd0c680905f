// Traces of processes: what each worker exports, and what is loaded.
import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { newParent, startCollector } from '../support/collector.ts';
import { createDatabase, createDataDir } from '../support/database.ts';
import { root, sourceEnvironment, spawnServer, untilReady, workersOf } from '../support/process.ts';
import { TEST_ROOT_KEY } from '../support/server.ts';

const WAIT = { timeout: 30_000 };
test('each worker exports its own spans, and a stop sends those that wait', async () => {
  const collector = await startCollector();
  const directory = createDataDir('tracing');
  const database = await createDatabase();
  const server = await spawnServer(directory, {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    WORKERS: '2',
    DATABASE_URL: database.url,
    MASTER_KEY: TEST_ROOT_KEY,
  });
  await untilReady(server);
  await expect
    .poll(async () => {
      await fetch(`${server.base_url}/healthz`, { headers: { connection: 'close' } });
      return new Set(collector.spans().map(({ resource }) => resource['process.pid'])).size;
    }, WAIT)
    .toBe(2);
  expect(new Set(collector.spans().map(({ resource }) => resource['process.pid']))).toEqual(new Set(workersOf(server)));
  const { trace_id, header } = newParent();
  await fetch(`${server.base_url}/healthz`, { headers: { traceparent: header } });
  server.child.kill('SIGTERM');
  expect(await server.exited).toBe(0);
  expect(collector.spans().map((span) => span.trace_id)).toContain(trace_id);
  await collector.close();
  await database.drop();
  rmSync(directory, { recursive: true, force: true });
});

test('the packages that trace are loaded only for an endpoint', async () => {
  const loadedWith = async (environment: Record<string, string>): Promise<string[]> => {
    const script = `import { registerHooks } from 'node:module';
      const loaded = new Set();
      registerHooks({ resolve: (name, context, next) => { const found = next(name, context); loaded.add(found.url); return found; } });
      await import('./src/app.ts');
      const { openTracing } = await import('./src/platform/tracing/open-tracing.ts');
      const { loadConfig } = await import('./src/platform/config/config.ts');
      const { createMetrics } = await import('./src/platform/metrics/metrics.ts');
      await openTracing(loadConfig(), { metrics: createMetrics(), log: console, monotonicMs: () => 0 });
      console.log(JSON.stringify([...loaded]));`;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
      cwd: root,
      env: { ...sourceEnvironment, ...environment },
      maxBuffer: 16 * 1024 * 1024,
    });
    return (JSON.parse(stdout) as string[]).filter((url) => /@opentelemetry\/(?!api\/)/.test(url));
  };
  expect(await loadedWith({})).toEqual([]);
  expect(await loadedWith({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' })).not.toEqual([]);
});
