// GET /metrics on the port of the API, for scrapers with a bearer token. Not served without METRICS_TOKEN, or with METRICS_PORT.
import type { AccessContext } from '../access/context.ts';
import { unauthorized } from '../../platform/base/errors.ts';
import type { App } from '../../platform/http/app-type.ts';
import { isBearerOf } from '../../platform/metrics/bearer.ts';
import { METRICS_TYPE } from '../../platform/metrics/render.ts';

export const metricsRoutes = (app: App, ctx: AccessContext): void => {
  const { port, token } = ctx.config.metrics;
  if (token === undefined || port !== undefined) return;
  app.get(
    '/metrics',
    { config: { permission: null, isProbe: true }, schema: { hide: true } },
    async (request, reply) => {
      // An API key does not open it, whatever its permissions: the figures are of all tenants.
      if (!isBearerOf(token, request.headers.authorization)) throw unauthorized('The token is missing or not valid.');
      return reply.type(METRICS_TYPE).send(await ctx.metricsText());
    },
  );
};
