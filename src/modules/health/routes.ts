// /healthz and /readyz for load balancers, and /metrics for scrapers. They need no key, so they reveal nothing that helps an attacker.
import { z } from 'zod';
import type { AccessContext } from '../access/context.ts';
import { unauthorized, unavailable } from '../../platform/base/errors.ts';
import type { App } from '../../platform/http/app-type.ts';
import { isBearerOf } from '../../platform/metrics/bearer.ts';
import { METRICS_TYPE } from '../../platform/metrics/render.ts';
import { hasTenants } from '../access/rows/tenants.ts';
import { failures } from '../../platform/http/schemas.ts';

// GET /metrics on the port of the API, for scrapers with a bearer token. Not served without METRICS_TOKEN, or with METRICS_PORT.

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

const health = z
  .object({ status: z.literal('ok').meta({ description: 'The status, which is always `ok`.', example: 'ok' }) })
  .meta({ id: 'Health', description: 'The state of the process.' });
const readiness = z
  .object({
    status: z.literal('ok').meta({ description: 'The status, which is always `ok`.', example: 'ok' }),
    initialized: z.boolean().meta({ description: 'Whether the vault has a tenant.', example: true }),
    key_provider: z.literal('unavailable').optional().meta({
      description:
        'Present while the key provider does not answer. Tenants whose keys are cached are served; others get a 503.',
      example: 'unavailable',
    }),
  })
  .meta({ id: 'Readiness', description: 'The state of the vault.' });

export const healthRoutes = (app: App, ctx: AccessContext): void => {
  app.get(
    '/healthz',
    {
      config: { permission: null, isProbe: true },
      schema: {
        operationId: 'getHealth',
        summary: 'Check that the process runs',
        description: 'Returns 200 while the process runs. Needs no key.',
        tags: ['Health'],
        answer: 'The process runs.',
        examples: { response: { alive: { summary: 'The process runs', value: { status: 'ok' } } } },
        response: { 200: health, ...failures(400) },
      },
    },
    async () => ({ status: 'ok' as const }),
  );
  app.get(
    '/readyz',
    {
      config: { permission: null, isProbe: true },
      schema: {
        operationId: 'getReadiness',
        summary: 'Check that requests are served',
        description:
          'Returns 200 while the server serves requests, 503 while the database is unavailable or the server is about to stop. Needs no key.',
        tags: ['Health'],
        answer: 'Requests are served.',
        examples: {
          response: { ready: { summary: 'Requests are served', value: { status: 'ok', initialized: true } } },
        },
        response: { 200: readiness, ...failures(400, 500, 503) },
      },
    },
    async () => {
      // Before the database is asked: the server drains also without it.
      if (ctx.draining.isOn) throw unavailable();
      // A query that needs a reachable, migrated database.
      const initialized = await hasTenants(ctx.db);
      const isProviderWell = ctx.provider.isAvailable();
      return { status: 'ok' as const, initialized, ...(!isProviderWell && { key_provider: 'unavailable' as const }) };
    },
  );
};
