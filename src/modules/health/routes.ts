// /healthz and /readyz for load balancers. They need no key, so they reveal nothing that helps an attacker.
import { hasTenants } from '../access/rows/tenants.ts';
import { z } from 'zod';
import type { AccessContext } from '../access/context.ts';
import type { App } from '../../platform/http/app-type.ts';
import { unavailable } from '../../platform/base/errors.ts';
import { failures } from '../../platform/http/schemas.ts';

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
