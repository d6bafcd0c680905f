// The table of contents: what applies to every request first, then the features in reading order.
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { fastifyRateLimit } from '@fastify/rate-limit';
import { fastify, type FastifyBaseLogger, LogController } from 'fastify';
import { validatorCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod';
import type { Context } from './context.ts';
import { associationsRoutes } from './features/associations/routes.ts';
import { detokenizeRoutes } from './features/detokenize/routes.ts';
import { applicationsRoutes } from './features/applications/routes.ts';
import { consoleRoutes } from './features/console/routes.ts';
import { docsRoutes } from './features/docs/routes.ts';
import { formulasRoutes } from './features/formulas/routes.ts';
import { healthRoutes } from './features/health/routes.ts';
import { joinRoutes } from './features/join/routes.ts';
import { invitationsRoutes } from './features/invitations/routes.ts';
import { logsRoutes } from './features/logs/routes.ts';
import { membersRoutes } from './features/members/routes.ts';
import { permissionsRoutes } from './features/permissions/routes.ts';
import { proxyRoutes } from './features/proxy/routes.ts';
import { proxiesRoutes } from './features/proxies/routes.ts';
import { reactorsRoutes } from './features/reactors/routes.ts';
import { tenantsRoutes } from './features/tenants/routes.ts';
import { tokenizeRoutes } from './features/tokenize/routes.ts';
import { tokensRoutes } from './features/tokens/routes.ts';
import type { App } from './http/app-type.ts';
import { addAuthentication } from './http/authenticate.ts';
import { addBodyParsers } from './http/body.ts';
import { refuseExpectations, requireOneHost, serveAbsoluteTargets } from './http/host.ts';
import { addIdempotency } from './http/idempotency.ts';
import { collectMethods } from './http/methods.ts';
import { addPages } from './http/pages.ts';
import { addOpenapi } from './http/openapi.ts';
import { addErrorFace, rawProblem, sendFrameworkProblem } from './http/problems.ts';
import { isForConsoleHost, separateHosts } from './http/route-hosts.ts';
import { goInRounds } from './http/rounds.ts';
import { refuseUnknownNames } from './http/strict.ts';
import { cutSlowBodies, REQUEST_MS_MAX } from './http/slow-bodies.ts';
import { addRequestLog, addTrace, traceIdOf } from './http/trace.ts';

/** Of the time for a request, this long for the headers: with the interval below they are cut within 30 s. */
const HEADERS_TIMEOUT_MS = 20_000;
/** How often Node compares connections with both; its default is 30 s, by which a sender could take twice its time. */
const SLOW_SENDERS_INTERVAL_MS = 5_000;
/** Longest path parameter: a token id of 400 characters, each percent-encoded as three bytes of UTF-8. */
const PARAM_LENGTH_MAX = 400 * 9;

export const buildApp = async (ctx: Context): Promise<App> => {
  const app = fastify({
    loggerInstance: ctx.log as FastifyBaseLogger,
    // One line a request is ours to write (http/trace.ts).
    logController: new LogController({ disableRequestLogging: true }),
    // A logger for each request costs a fifteenth of a read: our lines name their trace themselves; the few of Fastify's own,
    // which are about slips of ours, do not.
    childLoggerFactory: (logger) => logger,
    bodyLimit: ctx.config.bodyBytesMax,
    requestTimeout: REQUEST_MS_MAX,
    http: {
      headersTimeout: HEADERS_TIMEOUT_MS,
      connectionsCheckingInterval: SLOW_SENDERS_INTERVAL_MS,
      // Refused by requireOneHost, with a face.
      requireHostHeader: false,
    },
    forceCloseConnections: 'idle',
    trustProxy: ctx.config.trustedProxies ?? false,
    genReqId: (request) => traceIdOf(request, ctx.newUuid),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: PARAM_LENGTH_MAX },
    frameworkErrors: (error, request, reply) =>
      sendFrameworkProblem(reply, error, ctx.config.bodyBytesMax, !isForConsoleHost(ctx.config, request)),
    clientErrorHandler: (error: NodeJS.ErrnoException, socket: Socket) => {
      if (error.code === 'ECONNRESET' || socket.destroyed) return;
      // Into an answer that has begun, a problem would be written as a part of it.
      const { _httpMessage: answer } = socket as { _httpMessage?: ServerResponse };
      if (answer?.headersSent) return void socket.destroy();
      if (socket.writable) socket.end(rawProblem(error.code, ctx.newUuid()));
      socket.destroySoon();
    },
  }).withTypeProvider<ZodTypeProvider>();
  // Refused by refuseExpectations, with a face.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  app.setValidatorCompiler(validatorCompiler);
  // Answers are built by our own code; the schemas of responses are for the document, and tests hold them to it.
  app.setSerializerCompiler(() => JSON.stringify);

  addErrorFace(app, ctx, ctx.config.bodyBytesMax);
  addBodyParsers(app);
  goInRounds(app);
  addTrace(app);
  requireOneHost(app);
  serveAbsoluteTargets(app, ctx);
  cutSlowBodies(app, ctx);
  refuseExpectations(app);
  addRequestLog(app);
  separateHosts(app, ctx.config);
  await app.register(fastifyRateLimit, { global: false });
  const authentication = addAuthentication(app, ctx);
  addIdempotency(app, ctx);
  await addOpenapi(app);
  const guardMethods = collectMethods(app);

  await app.register(async (scope: App) => {
    refuseUnknownNames(scope);
    tokenizeRoutes(scope, ctx);
    tokensRoutes(scope, ctx);
    associationsRoutes(scope, ctx);
    detokenizeRoutes(scope, ctx);
    logsRoutes(scope, ctx);
    formulasRoutes(scope, ctx);
    reactorsRoutes(scope, ctx);
    proxiesRoutes(scope, ctx);
    applicationsRoutes(scope, ctx);
    permissionsRoutes(scope, ctx);
    tenantsRoutes(scope, ctx);
    membersRoutes(scope, ctx);
    invitationsRoutes(scope, ctx);
    healthRoutes(scope, ctx);
  });
  await proxyRoutes(app, ctx, authentication);
  if (ctx.config.docs) await docsRoutes(app);
  await addPages(app, ctx.config.bodyBytesMax, (scope: App) => {
    joinRoutes(scope, ctx);
    if (ctx.config.console) consoleRoutes(scope, ctx, authentication);
  });

  guardMethods();
  await app.ready();
  return app;
};
