// Who is calling: reads SVC-API-KEY, finds its caller, and refuses everyone else with one and the same answer.
import { AsyncLocalStorage } from 'node:async_hooks';
import { Socket } from 'node:net';
import type { FastifyRequest, InjectOptions, LightMyRequestResponse } from 'fastify';
import type { App } from './app-type.ts';
import type { Caller, RequestOrigin } from '../access/caller.ts';
import type { Permission } from '../access/permissions.ts';
import { mayAnywhere } from '../access/rules.ts';
import type { Context } from '../context.ts';
import { AppError, forbidden, unauthorized } from '../errors.ts';

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller | undefined;
  }
  interface FastifyContextConfig {
    /** The permission a caller needs, `authenticated` for any caller, null for a public route. Every route says. */
    permission?: Permission | 'authenticated' | null;
    /** A request without a key goes on without a caller: the route finds out who acts. */
    admitsStrangers?: true;
    /** Added by the house itself: answers 405 or OPTIONS for a path whose methods are others. */
    methodGuard?: true;
    /** Whatever else arrives under its path is answered where the route was registered. */
    forwards?: true;
  }
}

/** Longest key header looked at: a key has 65 characters. */
const KEY_LENGTH_MAX = 200;

/** Failed authentications an address may make: far above a misconfigured client, far below guessing (security.md A6). */
const FAILURES_PER_WINDOW_MAX = 100;
const FAILURES_WINDOW_MS = 60_000;

export const callerOf = (request: FastifyRequest): Caller => {
  if (!request.caller) throw unauthorized();
  return request.caller;
};

const notInitialized = () =>
  new AppError(
    'unavailable',
    'This vault has no tenant yet. Make one: npm run -s strongroom -- bootstrap --tenant-name NAME',
    { retryAfterSeconds: 5 },
  );

const refuse = (request: FastifyRequest): AppError => {
  const bearer = request.headers.authorization?.startsWith('Bearer svc_') ?? false;
  return unauthorized(bearer ? 'The API key belongs into the header SVC-API-KEY, not Authorization.' : undefined);
};

/** What the log says of where a request came from. */
export const originOf = ({ id, ip }: Pick<FastifyRequest, 'id' | 'ip'>): RequestOrigin => ({ trace_id: id, ip });

/** For routes that find out themselves who acts. */
export type Authentication = {
  /** A stranger failed to be somebody. @throws too_many_requests for an address that did so too often. */
  countFailure(request: FastifyRequest): Promise<void>;
  /**
   * Asks the API as somebody who is known already, such as a member with a session. It is a request like any other, but for
   * where its caller comes from: no header names one, and nothing from the network gets there.
   * @param request the person's own: its address and trace id are this one's too.
   */
  actAs(
    caller: Caller,
    request: Pick<FastifyRequest, 'ip' | 'id'>,
    asked: ActingRequest,
  ): Promise<LightMyRequestResponse>;
};

/** With `payloadAsStream` the answer comes as it is made. */
export type ActingRequest = Pick<
  InjectOptions,
  'method' | 'url' | 'headers' | 'payload' | 'payloadAsStream' | 'signal'
>;

export const addAuthentication = (app: App, ctx: Context): Authentication => {
  let initialized = false;
  const refuseUninitialized = async (): Promise<void> => {
    if (initialized) return;
    initialized = await ctx.db.hasTenants();
    if (!initialized) throw notInitialized();
  };

  const failures = ctx.config.rateLimit
    ? app.createRateLimit({
        max: FAILURES_PER_WINDOW_MAX,
        timeWindow: FAILURES_WINDOW_MS,
        keyGenerator: (request) => request.ip,
      })
    : undefined;

  const countFailure = async (request: FastifyRequest): Promise<void> => {
    const state = await failures?.(request);
    if (state && !state.isAllowed && state.isExceeded)
      throw new AppError('too_many_requests', 'Too many failed authentications. Wait and try again.', {
        retryAfterSeconds: state.ttlInSeconds,
      });
  };

  const failed = async (request: FastifyRequest): Promise<never> => {
    await countFailure(request);
    throw refuse(request);
  };

  app.decorateRequest('caller', undefined);

  const admit = (request: FastifyRequest, caller: Caller, permission: Permission | 'authenticated'): void => {
    // Known before it is refused: the log names who was refused.
    request.caller = { ...caller, origin: originOf(request) };
    if (permission !== 'authenticated' && !mayAnywhere(caller, permission)) throw forbidden(permission);
  };

  const authenticate = async (
    request: FastifyRequest,
    key: string | undefined,
    permission: Permission | 'authenticated',
  ) => {
    await refuseUninitialized();
    const caller = key === undefined ? undefined : await ctx.callers.findCallerBeforeCaller(key);
    if (!caller) return failed(request);
    return admit(request, caller, permission);
  };

  const actors = new AsyncLocalStorage<Caller>();
  // What came over a connection is nobody's act but its key's, in whatever context it is handled.
  const actorOf = ({ raw }: FastifyRequest): Caller | undefined =>
    raw.socket instanceof Socket ? undefined : actors.getStore();

  // Before the body is read: a stranger's bytes are not worth parsing. A caller of a moment ago is recalled at once.
  app.addHook('onRequest', (request, _reply, done) => {
    const { permission, admitsStrangers } = request.routeOptions.config;
    if (permission === null || permission === undefined) return done();
    const header = request.headers['svc-api-key'];
    const actor = actorOf(request);
    if (!actor && header === undefined && admitsStrangers) return void refuseUninitialized().then(() => done(), done);
    const key = typeof header === 'string' && header.length > 0 && header.length <= KEY_LENGTH_MAX ? header : undefined;
    const known = actor ?? (key === undefined ? undefined : ctx.callers.recallCaller(key));
    if (!known) return void authenticate(request, key, permission).then(() => done(), done);
    try {
      admit(request, known, permission);
      return done();
    } catch (error) {
      return done(error as Error);
    }
  });

  // A route that does not say who may use it does not start.
  app.addHook('onRoute', (route) => {
    if (route.config?.permission === undefined)
      throw new Error(`The route ${String(route.method)} ${route.url} names no permission (config.permission).`);
  });

  return {
    countFailure,
    actAs: (caller, { ip, id }, { headers, ...asked }) =>
      // Awaited within: the request begins when somebody waits for it.
      actors.run(
        caller,
        async () => await app.inject({ ...asked, headers: { ...headers, 'svc-trace-id': id }, remoteAddress: ip }),
      ),
  };
};
