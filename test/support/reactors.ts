// What tests of invocations share: a formula and a reactor made by the API, invoked by the API, on a server whose code can
// reach one TLS server of this machine and nothing else.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { expect } from 'vitest';
import type { Resolver } from '../../src/platform/egress/client.ts';
import {
  type Answer,
  type SharedServer,
  startServerBefore,
  type TestServer,
  type TestTenant,
  upstreamOn,
  useEgressServer,
} from './server.ts';
import { checkProblem } from './problem.ts';
import { type Received, startUpstream, type Upstream } from './upstream.ts';

export type Parameter = { name: string; type: 'string' | 'number' | 'boolean'; optional?: boolean };

export type ReactorToMake = {
  code: string;
  request_parameters?: Parameter[];
  /** The formula's contract, and what the reactor is configured with. */
  contract?: { name: string; type: string }[];
  configuration?: Record<string, unknown>;
  /** Whose permissions the code gets. */
  application?: Pick<TestTenant, 'application_id'> | undefined;
  /** Who makes it; the server's own tenant by default. */
  key?: string;
};

export type MadeReactor = { id: string; formula_id: string };

/** A formula's code of this function body, which sees `args`, `configuration`, `svc` and `req`. */
export const codeOf = (body: string): string =>
  `module.exports = async (req) => { const { args, configuration, svc } = req; ${body} };`;

const made = async (server: SharedServer, path: string, key: string | undefined, json: object): Promise<string> => {
  const answer = await server.request('POST', path, { json, ...(key !== undefined && { key }) });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};

export const makeFormula = (server: SharedServer, wanted: ReactorToMake): Promise<string> =>
  made(server, '/reactor-formulas', wanted.key, {
    name: 'Formula',
    type: 'private',
    code: wanted.code,
    configuration: wanted.contract ?? [],
    request_parameters: wanted.request_parameters ?? [],
  });

export const makeReactorOf = (
  server: SharedServer,
  formula_id: string,
  { configuration = {}, application, key }: Omit<ReactorToMake, 'code'> = {},
): Promise<string> =>
  made(server, '/reactors', key, {
    name: 'Reactor',
    formula: { id: formula_id },
    configuration,
    ...(application && { application: { id: application.application_id } }),
  });

/** @param wanted what is to be made, or the body of its function. */
export const makeReactor = async (server: SharedServer, wanted: ReactorToMake | string): Promise<MadeReactor> => {
  const whole = typeof wanted === 'string' ? { code: codeOf(wanted) } : wanted;
  const formula_id = await makeFormula(server, whole);
  return { id: await makeReactorOf(server, formula_id, whole), formula_id };
};

export type ReactOptions = { key?: string; headers?: Record<string, string> };

/** @param args undefined for a body without any. */
export const react = (
  server: SharedServer,
  reactor: { id: string } | string,
  args?: unknown,
  options: ReactOptions = {},
): Promise<Answer> =>
  server.request('POST', `/reactors/${typeof reactor === 'string' ? reactor : reactor.id}/react`, {
    json: args === undefined ? {} : { args },
    ...options,
  });

/** What the code returned under `raw`. */
export const rawOf = async (answered: Promise<Answer>): Promise<any> => {
  const answer = await answered;
  expect(answer.status, answer.text).toBe(200);
  return answer.body.raw;
};

/** Runs a function's body once, in a reactor of its own. */
export const runBody = async (server: SharedServer, body: string, args?: unknown): Promise<Answer> =>
  react(server, await makeReactor(server, body), args);

/** The error of an invocation, without random parts and codes. */
export const problemOf = ({ status, body, headers, text }: Answer) => {
  expect(headers.get('content-type'), text).toContain('application/problem+json');
  expect(body.status).toBe(status);
  checkProblem(body);
  const { trace_id, code: _code, codes: _codes, ...problem } = body;
  expect(trace_id).toEqual(expect.any(String));
  return problem;
};

export const tokenOf = async (server: SharedServer, data: unknown, more: object = {}, key?: string): Promise<string> =>
  made(server, '/tokens', key, { type: 'token', data, ...more });

export type LoggedUse = { actor_id: string; entity_type: string; entity_ids: string[] };

/** Rows of uses that name one of these entities, in their order, without those of each request that code sent. */
export const usesOf = (server: SharedServer, ...ids: string[]): Promise<LoggedUse[]> =>
  server.sql(
    `SELECT actor_id, entity_type, entity_ids FROM audit_log WHERE operation = 'use' AND outcome = 'success'
       AND message <> 'Request sent by code' AND entity_ids && $1::text[] ORDER BY id`,
    [ids],
  );

/** The server whose privilege to write its log is taken away meanwhile. */
export const withoutLog = async (server: SharedServer, work: () => Promise<void>): Promise<void> => {
  await server.sql('REVOKE INSERT ON audit_log FROM CURRENT_USER');
  try {
    await work();
  } finally {
    await server.sql('GRANT INSERT ON audit_log TO CURRENT_USER');
  }
};

type Route = (request: IncomingMessage, response: ServerResponse, received: Received) => void | Promise<void>;

export type ReactorServer<Server extends SharedServer = TestServer> = {
  server: Server;
  upstream: Upstream;
  /** Such as `https://upstream.test:4711`, and two of its subdomains that may be reached as well. */
  url: string;
  otherUrl: string;
  /** Where this one is, `resolve` says. */
  movingUrl: string;
  /** What the destination does at a path; elsewhere it echoes. */
  routes: Map<string, Route>;
  /** Requests that arrived at a path. */
  receivedAt(path: string): Received[];
  close(): Promise<void>;
};

export type SharedReactorServer = ReactorServer<SharedServer>;

const echo: Route = (_, response, { body, ...received }) => {
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ ...received, body: body.toString('latin1') }));
};

const pathOf = (url: string | undefined): string => new URL(url ?? '/', 'https://upstream.test').pathname;

/** @param resolve for every name but `upstream.test` and `other.upstream.test`, which are on loopback. */
export const startReactorServer = async (
  environment: Record<string, string> = {},
  resolve: Resolver = () => Promise.resolve([]),
): Promise<ReactorServer> => {
  const routed = await startRouted();
  const server = await startServerBefore(upstreamOn(routed.upstream.port), environment, { resolve: orFixed(resolve) });
  const all = withUrls(server, routed);
  return { ...all, close: () => server.close().then(all.close) };
};

/** On the server that several files use. */
export const useReactorServer = async (resolve: Resolver = () => Promise.resolve([])): Promise<SharedReactorServer> => {
  const { server, port } = await useEgressServer(orFixed(resolve));
  return withUrls(server, await startRouted(port));
};

const orFixed =
  (resolve: Resolver): Resolver =>
  (host, signal) =>
    ['upstream.test', 'other.upstream.test'].includes(host) ? Promise.resolve(['127.0.0.1']) : resolve(host, signal);

type Routed = Pick<ReactorServer, 'upstream' | 'routes'>;

const startRouted = async (port = 0): Promise<Routed> => {
  const routes: Routed['routes'] = new Map();
  const upstream = await startUpstream({
    port,
    answer: (request, response, received) => (routes.get(pathOf(request.url)) ?? echo)(request, response, received),
  });
  return { upstream, routes };
};

const withUrls = <Server extends SharedServer>(server: Server, { upstream, routes }: Routed): ReactorServer<Server> => {
  return {
    server,
    upstream,
    url: `https://upstream.test:${upstream.port}`,
    otherUrl: `https://other.upstream.test:${upstream.port}`,
    movingUrl: `https://moving.upstream.test:${upstream.port}`,
    routes,
    receivedAt: (path) => upstream.received.filter(({ url }) => pathOf(url) === path),
    close: () => upstream.close(),
  };
};
