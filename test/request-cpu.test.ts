// A request may use so much CPU time. What uses more is refused with the limit's name, stores nothing, and names its tenant in the log.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { codeOf, makeReactor, react } from './support/reactors.ts';
import { startServer, type TestServer } from './support/server.ts';

/** A third of what the large requests of these tests use on a fast machine, and several times what the first small ones use. */
const CPU_MS = 75;
const SENTENCE = `The request has reached the limit of CPU time of a request: ${CPU_MS / 1_000} s, and 0.3 s for each megabyte`;

let server: TestServer;
beforeAll(async () => {
  server = await startServer({}, { requestCpuMs: CPU_MS });
});
afterAll(() => server.close());

/** The dearest that so few bytes may ask for: an expression is evaluated for each. */
const many = Array.from({ length: 10_000 }, (_, each) => ({
  type: 'token',
  data: `text ${each}`,
  mask: '{{ data | last4 }}',
}));

const countTokens = async (): Promise<number> => (await server.sql('SELECT count(*)::int AS n FROM tokens'))[0].n;

const alarms = (): Record<string, unknown>[] =>
  server.logLines.map((line) => JSON.parse(line)).filter(({ alarm }) => alarm === 'request_spent');

test('it is refused, nothing is stored, and the tenant and the others go on', async () => {
  const other = await server.newTenant();
  const before = await countTokens();
  const refused = await server.request('POST', '/tokenize', { json: many });
  expect([refused.status, refused.body.code]).toEqual([413, 'payload_too_large']);
  expect(refused.body.detail).toContain(SENTENCE);
  expect(await countTokens()).toBe(before);
  const { tenant_id } = server.tenant;
  expect(alarms()).toMatchObject([{ account: tenant_id, route: 'POST /tokenize', cpu_ms: expect.any(Number) }]);
  expect(JSON.stringify(alarms())).not.toContain('text 1');
  expect((await server.tokenize('small')).status).toBe(200);
  expect((await server.tokenize('small', other.api_key)).status).toBe(200);
});

test('each call of a run has the time of a request, and code may catch the refusal', async () => {
  const json = { name: 'Calls', type: 'private', permissions: ['token:create'] };
  const application = (await server.request('POST', '/applications', { json })).body;
  const code = codeOf(`
    const many = Array.from({ length: 10_000 }, (_, each) => 't' + each);
    const fault = await svc.tokenize(many).catch((error) => error);
    let made = 0;
    for (let call = 0; call < 20; call += 1) made += (await svc.tokenize(['a', 'b'])).length;
    return { raw: [String(fault.message), made] };`);
  const reactor = await makeReactor(server, { code, application: { application_id: application.id } });
  const { status, body } = await react(server, reactor, {});
  expect(status, JSON.stringify(body)).toBe(200);
  expect(body.raw).toEqual([expect.stringContaining(SENTENCE), 40]);
});
