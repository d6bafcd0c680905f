// Acting as a member: the console calls the public API in the process, and no request can name that caller.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fastify } from 'fastify';
import { validatorCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod';
import type { Caller } from '../src/modules/access/caller.ts';
import { reactorsRoutes } from '../src/modules/reactors/reactors.routes.ts';
import { logsRoutes } from '../src/modules/logs/logs.routes.ts';
import { tokensRoutes } from '../src/modules/tokens/tokens.routes.ts';
import type { App } from '../src/platform/http/app-type.ts';
import { logRefusal } from '../src/modules/access/refusals.ts';
import { addAuthentication, type Authentication, StepUpNeeded, workOf } from '../src/modules/access/authenticate.ts';
import { addErrorHandler } from '../src/platform/http/problems.ts';
import { addIdempotency } from '../src/modules/access/idempotent-requests.ts';
import { parseReason, type RevealReason } from '../src/modules/access/reveal-reason.ts';
import { revealing } from '../src/modules/people/sessions.ts';
import { COOKIE, join, type Joined } from './support/people.ts';
import { type SharedServer, useServer } from './support/server.ts';

let server: SharedServer;
/** A second door on the same vault, which hands out `actAs`. */
let app: App;
let authentication: Authentication;
let base_url: string;
let member: Joined;
let caller: Caller;

const person = { ip: '203.0.113.9', id: 'trace-of-the-page' };

beforeAll(async () => {
  server = await useServer();
  app = fastify({
    genReqId: (request) => String(request.headers['svc-trace-id'] ?? 'none'),
  }).withTypeProvider<ZodTypeProvider>() as unknown as App;
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(() => JSON.stringify);
  addErrorHandler(app, 1024, (request, error) => logRefusal(server.ctx, request, error));
  authentication = addAuthentication(app, server.ctx);
  addIdempotency(app, server.ctx);
  tokensRoutes(app, server.ctx);
  logsRoutes(app, server.ctx);
  reactorsRoutes(app, server.ctx);
  app.get('/who', { config: { permission: 'authenticated' } }, async (request) => {
    // Long enough for another to come in between.
    await new Promise((resolve) => setTimeout(resolve, 5));
    const { actor_id, actor_type, tenant_id } = workOf(request);
    return { actor_id, actor_type, tenant_id, ip: request.ip, trace_id: request.id };
  });
  app.get('/over-the-wire', { config: { permission: 'authenticated' } }, async () => {
    const { status } = await fetch(`${base_url}/who`);
    return { status };
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  base_url = `http://127.0.0.1:${(app.server.address() as { port: number }).port}`;
  member = await join(server);
  const session = await server.ctx.sessions.find(member.browser.cookies.get(COOKIE) as string);
  caller = session?.caller as Caller;
});
afterAll(async () => {
  await app.close();
});

const act = (url: string, more: object = {}, as: Caller = caller) =>
  authentication.actAs({ caller: as, isFresh: true }, person, { method: 'GET', url, ...more });

test('a member whose second factor is old tests, restores and saves no code, by whatever route', async () => {
  const id = '00000000-0000-4000-8000-000000000000';
  const payload = { code: 'module.exports = () => ({})' };
  for (const [method, rest] of [
    ['POST', 'test'],
    ['POST', 'versions/1/restore'],
    ['PUT', 'draft'],
  ] as const) {
    const asked = { method, url: `/reactors/${id}/${rest}`, payload: rest.startsWith('versions') ? {} : payload };
    const stale = authentication.actAs({ caller, isFresh: false }, person, asked);
    await expect(stale).rejects.toBeInstanceOf(StepUpNeeded);
    expect((await act(asked.url, asked)).statusCode).toBe(404);
  }
});

describe('the member who acts', () => {
  test('is the member, from where the person is, under the trace of the page', async () => {
    expect((await act('/who')).json()).toEqual({
      actor_id: member.user_id,
      actor_type: 'user',
      tenant_id: server.tenant.tenant_id,
      ip: person.ip,
      trace_id: person.id,
    });
  });

  test('stays the same caller, whatever headers the request has', async () => {
    const headers = { 'svc-api-key': server.tenant.api_key, 'x-forwarded-for': '198.51.100.1', 'svc-trace-id': 'mine' };
    expect((await act('/who', { headers })).json()).toMatchObject({
      actor_id: member.user_id,
      ip: person.ip,
      trace_id: person.id,
    });
  });

  test('is who it is among many at once', async () => {
    const callers = Array.from({ length: 50 }, (_, at) => ({ ...caller, actor_id: `actor-${at}` }));
    const answers = await Promise.all(callers.map((each) => act('/who', {}, each)));
    expect(answers.map((answer) => answer.json().actor_id)).toEqual(callers.map(({ actor_id }) => actor_id));
  });

  test('needs the permission as every caller does', async () => {
    const powerless = { ...caller, permissions: new Set<never>(), rules: [] };
    expect((await act('/logs', {}, powerless)).statusCode).toBe(403);
    expect((await act('/logs')).statusCode).toBe(200);
  });

  test('reads tokens masked, and shows a value on request alone; both are logged as the user', async () => {
    const { body } = await server.request('POST', '/tokens', { json: { data: 'plain canary', type: 'token' } });
    const path = `/tokens/${encodeURIComponent(body.id)}`;
    const masked = await act(path);
    expect([masked.statusCode, masked.payload.includes('plain canary')]).toEqual([200, false]);
    const shown = await act(path, {}, revealing({ role: 'ADMIN', caller }));
    expect(shown.json().data).toBe('plain canary');
    const rows = await server.sql(
      'SELECT actor_type, actor_id, operation FROM audit_log WHERE entity_ids @> ARRAY[$1] AND operation = $2',
      [body.id, 'read'],
    );
    expect(rows).toEqual(
      Array.from({ length: 2 }, () => ({ actor_type: 'user', actor_id: member.user_id, operation: 'read' })),
    );
  });

  test('sees no value without a reason where the tenant asks for one, by whatever route', async () => {
    const { body } = await server.request('POST', '/tokens', {
      json: { data: 'reasoned canary', type: 'token', metadata: { of: 'reason' } },
    });
    const path = `/tokens/${encodeURIComponent(body.id)}`;
    const asking = revealing({ role: 'ADMIN', caller: { ...caller, needs_reveal_reason: true } });
    const ways = [
      { method: 'GET', url: path },
      { method: 'GET', url: '/tokens?metadata.of=reason' },
      { method: 'POST', url: '/tokens/search', payload: { query: 'metadata.of:reason' } },
    ] as const;
    const ask = (asked: (typeof ways)[number], reason?: RevealReason) =>
      authentication.actAs({ caller: asking, isFresh: true, reason }, person, asked);
    const reasonsOf = () =>
      server.sql("SELECT reason FROM audit_log WHERE entity_ids @> ARRAY[$1] AND disclosure = 'revealed'", [body.id]);
    for (const way of ways) {
      const refused = await ask(way);
      expect([way.url, refused.statusCode]).toEqual([way.url, 400]);
      expect(refused.payload).toContain('asks for a reason');
      expect(refused.payload).not.toContain('canary');
    }
    expect(await reasonsOf()).toEqual([]);
    for (const way of ways) expect((await ask(way, parseReason(' Ticket 4711 ') as RevealReason)).statusCode).toBe(200);
    expect(await reasonsOf()).not.toHaveLength(0);
    for (const row of await reasonsOf()) expect(row).toEqual({ reason: 'Ticket 4711' });
    // A masked look is no reveal.
    const masked = { caller: { ...caller, needs_reveal_reason: true }, isFresh: true };
    expect((await authentication.actAs(masked, person, { method: 'GET', url: path })).statusCode).toBe(200);
  });

  test('gets an answer in pieces where it is asked so', async () => {
    const answer = await act('/who', { payloadAsStream: true });
    let text = '';
    for await (const piece of answer.stream()) text += piece;
    expect(JSON.parse(text).actor_id).toBe(member.user_id);
  });
});

describe('a request without a caller', () => {
  test.each([
    ['without a header', {}],
    ['by a cookie', { cookie: 'strongroom=COOKIE' }],
    [
      'by headers that sound like it',
      { 'x-caller': 'admin', 'svc-caller': '{}', caller: '{}', authorization: 'Bearer x' },
    ],
  ])('over the network, %s', async (_what, headers) => {
    const cookie = (headers as { cookie?: string }).cookie?.replace('COOKIE', member.secret);
    const answer = await fetch(`${base_url}/who`, { headers: { ...headers, ...(cookie !== undefined && { cookie }) } });
    expect(answer.status).toBe(401);
  });

  test('in a request that was injected without anybody', async () => {
    expect((await app.inject({ url: '/who' })).statusCode).toBe(401);
  });

  test('in a request that an acted one makes over the network', async () => {
    expect((await act('/over-the-wire')).json()).toEqual({ status: 401 });
  });

  test('once the act is over', async () => {
    await act('/who');
    expect((await app.inject({ url: '/who' })).statusCode).toBe(401);
  });
});
