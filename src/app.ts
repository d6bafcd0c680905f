// Builds the server: first the hooks that apply to every request, in order, then the routes of each module.
import { maxHeaderSize, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { fastify, type FastifyBaseLogger, LogController } from 'fastify';
import { validatorCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod';
import type { App } from './platform/http/app-type.ts';
import { watchAnswers } from './platform/http/answers-under-way.ts';
import { addBodyParsers } from './platform/http/body.ts';
import { deferRequests } from './platform/http/defer-requests.ts';
import {
  closingResponse,
  countUnsent,
  cutSlowBodies,
  cutSlowReaders,
  refuseTwoMeanings,
} from './platform/http/connections.ts';
import { prefixedResponse, renamePrefixes } from './platform/http/header-prefixes.ts';
import { nameOperations } from './platform/http/operations.ts';
import {
  collectMethods,
  createPaths,
  isForPagesHost,
  type Paths,
  refuseExpectations,
  requireOneHost,
  separateHosts,
  serveAbsoluteTargets,
} from './platform/http/host.ts';
import { chargeBodies, meterBodies, parseInParts } from './platform/http/metered-bodies.ts';
import { addOpenapi } from './platform/http/openapi/openapi.ts';
import { addPages } from './platform/http/pages.ts';
import { addErrorHandler, rawProblem, sendFrameworkProblem } from './platform/http/problems.ts';
import { addRequestLog, addRequestSpans, addTrace, traceIdOf } from './platform/http/trace.ts';
import { refuseUnknownNames } from './platform/http/strict.ts';
import { HEADERS_MS_MAX, KEEP_ALIVE_MS, LOOK_AT_REQUESTS_MS, REQUEST_MS_MAX } from './platform/base/times.ts';
import { applicationKeysRoutes } from './modules/access/application-keys.routes.ts';
import { applicationsRoutes } from './modules/access/applications.routes.ts';
import { addAuthentication, type Authentication } from './modules/access/authenticate.ts';
import { addIdempotency } from './modules/access/idempotent-requests.ts';
import { addPartialRequests } from './modules/access/partial-requests.ts';
import { permissionsRoutes } from './modules/access/permissions.routes.ts';
import { addPreflights } from './modules/access/public-access.ts';
import { logRefusal } from './modules/access/refusals.ts';
import { tenantsRoutes } from './modules/access/tenants.routes.ts';
import { TOKEN_ID_LENGTH_MAX } from './modules/access/token-id.ts';
import { logsRoutes } from './modules/logs/logs.routes.ts';
import { runsRoutes } from './modules/runs/runs.routes.ts';
import { associationsRoutes } from './modules/tokens/associations.routes.ts';
import { detokenizeRoutes } from './modules/tokens/detokenize.routes.ts';
import { delegatePaymentRoutes } from './modules/tokens/delegate-payment.routes.ts';
import { tokenizeRoutes } from './modules/tokens/tokenize.routes.ts';
import { tokensRoutes } from './modules/tokens/tokens.routes.ts';
import { tokensV2Routes } from './modules/tokens/tokens-v2.routes.ts';
import { tokenIntentsRoutes } from './modules/tokens/token-intents.routes.ts';
import { collectRoutes } from './modules/sessions/collect.routes.ts';
import { codesRoutes } from './modules/sessions/codes.routes.ts';
import { sessionsRoutes } from './modules/sessions/sessions.routes.ts';
import { fieldsRoutes } from './modules/fields/fields.routes.ts';
import { formulasRoutes } from './modules/code/formulas.routes.ts';
import { reactorsRoutes } from './modules/reactors/reactors.routes.ts';
import { proxiesRoutes } from './modules/proxy/proxies.routes.ts';
import { forwardsRoutes } from './modules/proxy/forwards/forwards.routes.ts';
import { proxyRoutes } from './modules/proxy/proxy.routes.ts';
import { proxyComponents } from './modules/proxy/proxy.schema.ts';
import { webhooksRoutes } from './modules/webhooks/webhooks.routes.ts';
import { invitationsRoutes } from './modules/people/invitations.routes.ts';
import { joinRoutes } from './modules/people/join.routes.ts';
import { membersRoutes } from './modules/people/members.routes.ts';
import { answersRoutes } from './modules/answers/answers.routes.ts';
import { consoleRoutes } from './modules/console/routes.ts';
import { healthRoutes, metricsRoutes } from './modules/health/routes.ts';
import { testingRoutes } from './modules/testing/testing.routes.ts';
import { docsPages, docsRoutes } from './modules/docs/routes.ts';
import type { Context } from './modules.ts';

/** Longest path parameter: a token id whose characters are each percent-encoded as three bytes of UTF-8. */
const PARAM_LENGTH_MAX = TOKEN_ID_LENGTH_MAX * 9;

const ROUTER_OPTIONS = { ignoreTrailingSlash: true, maxParamLength: PARAM_LENGTH_MAX };

/** A heavy worker takes the client's address, host and protocol from the headers of the server, which alone can reach its socket. */
const trustedOf = ({ heavySocket, trustedProxies }: Context['config']) =>
  heavySocket === undefined ? (trustedProxies ?? false) : (_address: string, hop: number) => hop === 0;

/** Twice Node's limit: the server that hands a request over has looked at the client's, and adds its own. */
const HEAVY_HEADER_BYTES_MAX = 2 * maxHeaderSize;

const createServer = (ctx: Context) => {
  const app = fastify({
    loggerInstance: ctx.log as FastifyBaseLogger,
    // platform/http/trace.ts writes one line for each request.
    logController: new LogController({ disableRequestLogging: true }),
    // A child logger for each request costs 7 % of a read. Our log lines carry the trace id themselves.
    childLoggerFactory: (logger) => logger,
    bodyLimit: ctx.config.bodyBytesMax,
    requestTimeout: REQUEST_MS_MAX,
    // The server closes connections to a heavy worker, which would otherwise close one that a request is being sent on.
    keepAliveTimeout: ctx.config.heavySocket === undefined ? KEEP_ALIVE_MS : 0,
    http: {
      headersTimeout: HEADERS_MS_MAX,
      ...(ctx.config.heavySocket !== undefined && { maxHeaderSize: HEAVY_HEADER_BYTES_MAX }),
      connectionsCheckingInterval: LOOK_AT_REQUESTS_MS,
      // requireOneHost refuses such requests with a problem document.
      requireHostHeader: false,
      ...meterBodies(
        ctx.accounts,
        (): Server => app.server,
        prefixedResponse(ctx.config.headerPrefixes, closingResponse(ctx.draining)),
      ),
    },
    forceCloseConnections: 'idle',
    trustProxy: trustedOf(ctx.config),
    genReqId: (request) => traceIdOf(request, ctx.newUuid),
    routerOptions: ROUTER_OPTIONS,
    frameworkErrors: (error, request, reply) =>
      sendFrameworkProblem(reply, error, ctx.config.bodyBytesMax, !isForPagesHost(ctx.config, request)),
    clientErrorHandler: (error: NodeJS.ErrnoException, socket: Socket) => {
      if (error.code === 'ECONNRESET' || socket.destroyed) return;
      // After the response has begun, a problem would become part of its body.
      if (hasBegunAnswer(socket)) return void socket.destroy();
      if (socket.writable) socket.end(rawProblem(error.code, ctx.newUuid()));
      socket.destroySoon();
    },
  }).withTypeProvider<ZodTypeProvider>();
  const hasBegunAnswer = watchAnswers(app.server);
  return app;
};

/** Hooks run in the order in which they are added here. */
const addHooks = (app: App, ctx: Context, paths: Paths): Authentication => {
  addErrorHandler(app, ctx.config.bodyBytesMax, (request, error) => logRefusal(ctx, request, error));
  addBodyParsers(app, ctx);
  addRequestSpans(app, ctx.tracing);
  deferRequests(app);
  chargeBodies(app);
  addTrace(app);
  requireOneHost(app);
  renamePrefixes(app, ctx.config.headerPrefixes);
  refuseTwoMeanings(app);
  serveAbsoluteTargets(app, ctx);
  cutSlowBodies(app, ctx);
  // The server reads a client's response in larger parts than the client: it cuts clients that are slow.
  if (ctx.config.heavySocket === undefined) cutSlowReaders(app, ctx);
  refuseExpectations(app);
  addRequestLog(app, ctx.metrics);
  separateHosts(app, ctx.config, paths);
  addPreflights(app, ctx.config);
  const authentication = addAuthentication(app, ctx);
  addPartialRequests(app);
  nameOperations(app, ctx);
  addIdempotency(app, ctx);
  countUnsent(app, ctx);
  return authentication;
};

/** The routes of the API, in the order of its documentation. All refuse unknown attributes and parameters. */
const addApiRoutes = async (app: App, ctx: Context): Promise<void> => {
  await app.register(async (scope: App) => {
    refuseUnknownNames(scope);
    tokenizeRoutes(scope, ctx);
    tokensRoutes(scope, ctx);
    tokensV2Routes(scope, ctx);
    tokenIntentsRoutes(scope, ctx);
    associationsRoutes(scope, ctx);
    detokenizeRoutes(scope, ctx);
    sessionsRoutes(scope, ctx);
    codesRoutes(scope, ctx);
    logsRoutes(scope, ctx);
    runsRoutes(scope, ctx);
    formulasRoutes(scope, ctx);
    reactorsRoutes(scope, ctx);
    proxiesRoutes(scope, ctx);
    forwardsRoutes(scope, ctx);
    answersRoutes(scope, ctx);
    applicationsRoutes(scope, ctx);
    applicationKeysRoutes(scope, ctx);
    webhooksRoutes(scope, ctx);
    permissionsRoutes(scope, ctx);
    tenantsRoutes(scope, ctx);
    membersRoutes(scope, ctx);
    invitationsRoutes(scope, ctx);
    healthRoutes(scope, ctx);
    testingRoutes(scope, ctx);
  });
};

export const buildApp = async (ctx: Context): Promise<App> => {
  const app: App = createServer(ctx);
  parseInParts(app.server, ctx.accounts);
  // Node answers other expectations itself; refuseExpectations does so with a problem document.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  app.setValidatorCompiler(validatorCompiler);
  // Response schemas are for the OpenAPI document only. Tests compare real responses with them.
  app.setSerializerCompiler(() => JSON.stringify);

  const paths = createPaths(ROUTER_OPTIONS);
  const authentication = addHooks(app, ctx, paths);
  await addOpenapi(app, proxyComponents);
  const addMethodGuards = collectMethods(app, paths);

  await addApiRoutes(app, ctx);
  await delegatePaymentRoutes(app, ctx);
  await proxyRoutes(app, ctx, authentication);
  await fieldsRoutes(app, ctx);
  metricsRoutes(app, ctx);
  if (ctx.config.docs) docsRoutes(app, ctx.config);
  await addPages(app, ctx.config, (scope: App) => {
    collectRoutes(scope, ctx);
    joinRoutes(scope, ctx);
    if (ctx.config.docs) docsPages(scope, ctx.config);
    if (ctx.config.console) consoleRoutes(scope, ctx, authentication);
  });

  addMethodGuards();
  await app.ready();
  return app;
};
