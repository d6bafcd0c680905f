// Authenticates requests by SVC-API-KEY and checks the permission of the route before the body is read.
import { openAccount } from '../../platform/base/accounts.ts';
import type { LoggedToken, RequestOrigin, Usage } from '../../platform/db/audit-record.ts';
import { handOver } from '../../platform/http/hand-over.ts';
import { addRateLimitHeaders } from '../../platform/http/answers.ts';
import { traceIdsOf } from '../../platform/http/trace.ts';
import { type CountFailure, createFailureCount } from './failures.ts';
import { quotasOf } from './limits.ts';
import { hasTenants } from './rows/tenants.ts';
import { AsyncLocalStorage } from 'node:async_hooks';
import { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest, InjectOptions, LightMyRequestResponse } from 'fastify';
import type { App } from '../../platform/http/app-type.ts';
import { isInNetworks } from '../../platform/base/ip-networks.ts';
import type { Caller } from './caller.ts';
import { asksForDryRun } from './dry-run-header.ts';
import { Work } from './work.ts';
import { type Permission, sensitivePermissions } from './permissions.ts';
import { checkPublicAccess, letPageRead } from './public-access.ts';
import type { RevealReason } from './reveal-reason.ts';
import { mayAnywhere } from './rules.ts';
import type { AccessContext } from './context.ts';
import { AppError, badRequest, failure, forbidden, unauthorized } from '../../platform/base/errors.ts';
import { PROGRAM } from '../../platform/base/program.ts';

declare module 'fastify' {
  interface FastifyRequest {
    work: Work | undefined;
    /** Counts what it does. */
    usage: Usage | undefined;
  }
  interface FastifyContextConfig {
    /** The permission that the caller needs, `authenticated` for any caller, null for a public route. Required for every route. */
    permission?: Permission | 'authenticated' | null;
    /** A request without a key goes on without a caller: the handler authenticates it. */
    allowsAnonymous?: true;
    /** The API key may come as `Authorization: Bearer` too, as the interface of others has it. */
    takesBearer?: true;
    /** The route answers requests with SVC-DRY-RUN; all others refuse them, and do nothing. */
    takesDryRun?: true;
    /** Registered for the methods that a path does not have: answers OPTIONS, and 405 to the others. */
    methodGuard?: true;
    /** The route takes every method and every path below its own. */
    forwards?: true;
  }
}

/** A response from here on is a failure of the vault, of code or of a destination. */
const FAILED_STATUS = 500;

/** Longer headers are refused without a look-up: a key has 65 characters. */
const KEY_LENGTH_MAX = 200;

const hasLimits = ({ limits, publicAccess }: Caller): boolean => limits !== undefined || publicAccess !== undefined;

export const workOf = (request: FastifyRequest): Work => {
  if (!request.work) throw unauthorized();
  return request.work;
};

const notInitialized = () =>
  failure('no_tenant', `This vault has no tenant yet. Make one: ${PROGRAM} bootstrap --tenant-name NAME`, {
    retryAfterSeconds: 5,
  });

/** Headers in which other services take a key. */
const foreignHeader = /^(?:[a-z0-9-]{1,40}-)?(?:api-?key|auth-token|access-token)$/;

/** The header as clients of another API of this form name it, such as BT-API-KEY. */
const otherPrefix = /^([A-Z][A-Z0-9]{1,9})-API-KEY$/;

/** A key of ours as such a header may have it: alone, after a scheme, or as the user name of Basic authentication. */
const ownKey = /^(?:[A-Za-z]+ +)?(?:svc_|c3ZjX)/;

/** The header that has the API key in place of SVC-API-KEY. */
const misplacedIn = ({ headers }: FastifyRequest): string | undefined => {
  if (headers['svc-api-key'] !== undefined) return undefined;
  if (ownKey.test(headers.authorization ?? '')) return 'Authorization';
  return Object.keys(headers)
    .find((name) => foreignHeader.test(name))
    ?.toUpperCase();
};

const bearerOf = ({ headers }: FastifyRequest): string | string[] | undefined => {
  const [, token] = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? [];
  return headers['svc-api-key'] ?? token;
};

const refuse = (request: FastifyRequest): AppError => {
  if (request.routeOptions.config.takesBearer) return unauthorized();
  const name = misplacedIn(request);
  if (name === undefined) return unauthorized();
  const [, prefix] = otherPrefix.exec(name) ?? [];
  const setting =
    prefix === undefined ? '' : ` A server with the setting API_HEADER_PREFIXES=SVC,${prefix} takes that header, too.`;
  return failure('misplaced_key', `The API key belongs in the header SVC-API-KEY, not ${name}.${setting}`);
};

/** Refuses a key that is used from an address which is not on its list. @throws forbidden, which is logged as refused. */
const checkAddress = ({ ip }: FastifyRequest, { key }: Caller): void => {
  if (key === undefined || key.allowed_addresses.length === 0 || isInNetworks(ip, key.allowed_addresses)) return;
  throw new AppError('forbidden', 'The API key does not work from this address.');
};

/** Warnings about a request that is done. */
const WARNING = 'svc-warning';

/** Code may create tokens in many containers: no more warnings follow a header of this length. */
const WARNING_LENGTH_MAX = 1_000;

const warnIn =
  (reply: FastifyReply) =>
  (sentence: string): void => {
    const before = String(reply.getHeader(WARNING) ?? '');
    if (before.length > WARNING_LENGTH_MAX || before.includes(sentence)) return;
    reply.header(WARNING, before === '' ? sentence : `${before} ${sentence}`);
  };

/** The origin of a request for the audit log. */
export const originOf = (request: Pick<FastifyRequest, 'id' | 'ip' | 'otel_trace_id'>): RequestOrigin => ({
  ...traceIdsOf(request),
  ip: request.ip,
});

/** The application that asks: the caller, or the one that made the caller's session. */
const askingOf = ({ actor_type, actor_id, publicAccess }: Caller): string | undefined =>
  actor_type === 'application' ? actor_id : publicAccess?.session?.created_by;

/** Adds the application that asks to `originOf`, for a request whose caller is known. */
export const originFor = (request: Parameters<typeof originOf>[0], caller: Caller): RequestOrigin => ({
  ...originOf(request),
  application_id: askingOf(caller),
});

/** A caller that is authenticated already. `isFresh`: whether it may do what needs a second factor of the last minutes. */
export type Actor = {
  caller: Caller;
  isFresh: boolean;
  /** Same as `gather` of `Work`. */
  gather?: ((tokens: readonly LoggedToken[]) => void) | undefined;
  reason?: RevealReason | undefined;
};

/** An operation was refused, and nothing was done: the member must give the second factor again. */
export class StepUpNeeded extends AppError {
  constructor() {
    super('forbidden', 'This needs a second factor that was given in the last minutes.', {
      failureCause: 'second_factor_needed',
    });
  }
}

const noDryRun = () => badRequest('SVC-DRY-RUN is for /proxy and for invocations of reactors: nothing was done.');

const readsValues = (permission: Permission, { rules }: Caller): boolean =>
  rules.some((rule) => rule.transform === 'reveal' && rule.permissions.includes(permission));

const needsFreshFactor = (caller: Caller, permission: Permission | 'authenticated'): boolean =>
  permission !== 'authenticated' && (sensitivePermissions.has(permission) || readsValues(permission, caller));

/** For routes that authenticate by themselves. */
export type Authentication = {
  countFailure: CountFailure;
  /**
   * Sends a request to the API for a caller that is authenticated already, such as a member with a session. No header names the
   * caller, so that no request from the network can choose one.
   * @param request of the person, whose address and trace id it gets.
   * @throws StepUpNeeded for a sensitive operation of an actor that is not fresh, whichever route does it.
   */
  actAs(
    actor: Actor,
    request: Pick<FastifyRequest, 'ip' | 'id'>,
    asked: ActingRequest,
  ): Promise<LightMyRequestResponse>;
};

/** With `payloadAsStream` the answer is a stream. */
export type ActingRequest = Pick<
  InjectOptions,
  'method' | 'url' | 'headers' | 'payload' | 'payloadAsStream' | 'signal'
>;

export const addAuthentication = (app: App, ctx: AccessContext): Authentication => {
  let initialized = false;
  const refuseUninitialized = async (): Promise<void> => {
    if (initialized) return;
    initialized = await hasTenants(ctx.db);
    if (!initialized) throw notInitialized();
  };

  const countFailure = createFailureCount(ctx);

  const failed = async (request: FastifyRequest): Promise<never> => {
    await countFailure(request.ip);
    throw refuse(request);
  };

  app.decorateRequest('work', undefined);
  app.decorateRequest('usage', undefined);

  app.addHook('onResponse', (request, reply, done) => {
    const { usage } = request;
    if (reply.statusCode >= FAILED_STATUS) usage?.count('failed', []);
    usage?.finish(reply.elapsedTime);
    done();
  });

  /** Counts the request once, also where it is admitted a second time. */
  const detailsOf = (request: FastifyRequest, reply: FastifyReply, caller: Caller) => {
    const origin = originFor(request, caller);
    request.usage ??= ctx.usage.begin(caller.tenant_id, origin.application_id);
    return { origin, usage: request.usage, warn: warnIn(reply) };
  };

  app.decorateRequest('isHandedOver', false);
  /** Socket of the heavy worker, if the request goes to it. Limits and permissions of the request are checked there. */
  const findHeavySocket = ({ raw }: FastifyRequest, { tenant_id, publicAccess }: Caller): string | undefined => {
    const isElsewhere = ctx.accounts.heavyTenants.isElsewhere(tenant_id);
    if (!isElsewhere || publicAccess !== undefined || !(raw.socket instanceof Socket)) return undefined;
    // A client that has left has no address any more, which the heavy worker must be told.
    return raw.socket.remoteAddress === undefined ? undefined : ctx.accounts.heavyTenants.socket;
  };

  const admit = (
    request: FastifyRequest,
    reply: FastifyReply,
    caller: Caller,
    permission: Permission | 'authenticated',
  ): void => {
    // Set before the request is refused: the log names the caller.
    const { gather, reason } = actorOf(request) ?? {};
    const acting = { refuseStale: refusalOfStale(request), gather, reason };
    const work = (request.work ??= new Work(ctx, caller, { ...detailsOf(request, reply, caller), ...acting }));
    checkAddress(request, caller);
    if (!request.routeOptions.config.takesDryRun && asksForDryRun(request.headers)) throw noDryRun();
    checkPublicAccess(ctx, request, caller);
    if (permission !== 'authenticated' && !mayAnywhere(work, permission)) throw forbidden(permission);
  };

  /** Admits a request like `admit`, for a caller with limits. @throws too_many_requests over its rate. */
  const admitLimited = async (
    request: FastifyRequest,
    reply: FastifyReply,
    caller: Caller,
    permission: Permission | 'authenticated',
  ): Promise<void> => {
    const rate_limit = caller.limits?.rate_limit;
    const reportLimit = addRateLimitHeaders(reply, quotasOf(caller));
    letPageRead(ctx, request, reply, caller);
    // Everybody can read the key: who has it takes nothing of what the tenant's own servers need.
    if (caller.publicAccess) request.account = openAccount(caller.tenant_id, request.ip);
    request.work = new Work(ctx, caller, { ...detailsOf(request, reply, caller), reportLimit });
    // A key that serves no more takes nothing of the rate that it shares with living ones.
    checkPublicAccess(ctx, request, caller);
    if (rate_limit) await ctx.requestRates.take(caller, rate_limit, reportLimit);
    admit(request, reply, caller, permission);
  };

  const authenticate = async (request: FastifyRequest, key: string | undefined): Promise<Caller> => {
    await refuseUninitialized();
    const caller = key === undefined ? undefined : await ctx.callers.findCallerBeforeCaller(key);
    return caller ?? failed(request);
  };

  type Acting = Actor & { isRefused: boolean };
  const actors = new AsyncLocalStorage<Acting>();
  // A request from the network is authenticated by its key only, in whatever async context it is handled.
  const actorOf = ({ raw }: FastifyRequest): Acting | undefined =>
    raw.socket instanceof Socket ? undefined : actors.getStore();

  const refusalOfStale = (request: FastifyRequest): (() => never) | undefined => {
    const actor = actorOf(request);
    if (!actor || actor.isFresh) return undefined;
    return () => {
      actor.isRefused = true;
      throw new StepUpNeeded();
    };
  };

  // Before the body is read, so that bodies of anonymous clients are not parsed. A cached caller needs no promise.
  app.addHook('onRequest', (request, reply, done) => {
    const { permission, allowsAnonymous, takesBearer } = request.routeOptions.config;
    if (permission === null || permission === undefined) return done();
    const header = takesBearer ? bearerOf(request) : request.headers['svc-api-key'];
    const actor = actorOf(request);
    if (!actor && header === undefined && allowsAnonymous) return void refuseUninitialized().then(() => done(), done);
    const key = typeof header === 'string' && header.length > 0 && header.length <= KEY_LENGTH_MAX ? header : undefined;
    const known = actor?.caller ?? (key === undefined ? undefined : ctx.callers.recallCaller(key));
    const goOn = (caller: Caller): void => {
      if (hasLimits(caller)) return void admitLimited(request, reply, caller, permission).then(() => done(), done);
      try {
        if (actor && needsFreshFactor(actor.caller, permission)) refusalOfStale(request)?.();
        admit(request, reply, caller, permission);
        return done();
      } catch (error) {
        return done(error as Error);
      }
    };
    const begin = (caller: Caller): void => {
      const socketPath = findHeavySocket(request, caller);
      if (socketPath === undefined) return goOn(caller);
      request.account = caller.tenant_id;
      try {
        handOver(ctx, socketPath, request, reply, () => {
          request.account = undefined;
          goOn(caller);
        });
      } catch (error) {
        // Such as a header that Node does not send: no request ends the server.
        done(error as Error);
      }
    };
    if (known) begin(known);
    else void authenticate(request, key).then(begin, done);
  });

  // The server does not start with a route that has no permission.
  app.addHook('onRoute', (route) => {
    if (route.config?.permission === undefined)
      throw new Error(`The route ${String(route.method)} ${route.url} names no permission (config.permission).`);
  });

  return {
    countFailure,
    actAs: (given, { ip, id }, { headers, ...asked }) => {
      const actor = { ...given, isRefused: false };
      // Awaited within the async context: `inject` begins when its promise is awaited.
      return actors.run(actor, async () => {
        const injected = { ...asked, headers: { ...headers, 'svc-trace-id': id }, remoteAddress: ip };
        const answer = await app.inject(injected);
        if (actor.isRefused) throw new StepUpNeeded();
        return answer;
      });
    },
  };
};
