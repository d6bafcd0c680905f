// Endpoints of traces that hang, refuse or answer rubbish cost spans, not requests.
import { describe, expect, test } from 'vitest';
import { newParent, startCollector } from '../support/collector.ts';
import { type ReactorServer, startReactorServer } from '../support/reactors.ts';
import type { TestServer } from '../support/server.ts';

const WAIT = { timeout: 30_000 };
const CARD = '4916338506082832';

describe('an endpoint that', () => {
  const serverWith = async (
    url: string,
    more: Record<string, string> = {},
  ): Promise<{ fixture: ReactorServer; dropped: () => Promise<number> }> => {
    const fixture = await startReactorServer({ OTEL_EXPORTER_OTLP_ENDPOINT: url, ...more });
    const dropped = async (): Promise<number> => {
      const text = await fixture.server.ctx.metricsText();
      return Number(/^strongroom_spans_total\{result="dropped"\} (\d+)$/m.exec(text)?.[1]);
    };
    return { fixture, dropped };
  };
  const reports = (server: TestServer) => server.logLines.filter((line) => line.includes('spans were dropped'));

  test('hangs stops no request and no end of the server; what waits is dropped and counted', async () => {
    const collector = await startCollector(() => undefined);
    const { fixture, dropped } = await serverWith(collector.url);
    const { server } = fixture;
    expect((await server.tokenize({ note: 'value' })).status).toBe(200);
    await expect.poll(() => collector.paths.length, WAIT).toBeGreaterThan(0);
    for (let sent = 0; sent < 30; sent += 1) expect((await server.tokenize({ note: 'value' })).status).toBe(200);
    expect(await dropped()).toBe(0);
    const { tracing } = server.ctx;
    await tracing?.close();
    expect(await dropped()).toBeGreaterThanOrEqual(60);
    expect((await server.tokenize({ note: 'value' })).status).toBe(200);
    expect(reports(server)).toHaveLength(1);
    expect(JSON.parse(reports(server)[0] as string)).toMatchObject({ level: 'warn', dropped: expect.any(Number) });
    await fixture.close();
    await collector.close();
  });

  test('refuses, or says what is no OTLP, costs spans and a line of the log', async () => {
    const refuses = await startCollector((response) => void response.writeHead(400).end(`refused ${CARD}`));
    const { fixture, dropped } = await serverWith(refuses.url);
    expect((await fixture.server.tokenize({ note: 'value' })).status).toBe(200);
    await expect.poll(dropped, WAIT).toBeGreaterThan(0);
    expect((await fixture.server.tokenize({ note: 'value' })).status).toBe(200);
    expect(reports(fixture.server)).toHaveLength(1);
    expect(fixture.server.logLines.join('')).not.toContain(CARD);
    await fixture.close();
    await refuses.close();
    const rubbish = await startCollector((response) => void response.socket?.end('no http at all'));
    const other = await serverWith(rubbish.url, { OTEL_TRACES_SAMPLER: 'parentbased_always_off' });
    const { header } = newParent();
    await other.fixture.server.request('GET', '/tokens/x', { headers: { traceparent: header } });
    expect((await other.fixture.server.tokenize({ note: 'value' })).status).toBe(200);
    await expect.poll(other.dropped, WAIT).toBeGreaterThan(0);
    await other.fixture.close();
    await rubbish.close();
  });
});
