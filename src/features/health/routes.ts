// /healthz and /readyz: for load balancers and supervisors. They need no key, so they tell nothing that helps an attacker.
import { z } from 'zod';
import type { Context } from '../../context.ts';
import type { App } from '../../http/app-type.ts';
import { failures } from '../../http/schemas.ts';

const health = z
  .object({ status: z.literal('ok').meta({ description: 'The status, which is always `ok`.', example: 'ok' }) })
  .meta({ id: 'Health', description: 'The state of the process.' });
const readiness = z
  .object({
    status: z.literal('ok').meta({ description: 'The status, which is always `ok`.', example: 'ok' }),
    initialized: z.boolean().meta({ description: 'Whether the vault has a tenant.', example: true }),
  })
  .meta({ id: 'Readiness', description: 'The state of the vault.' });

export const healthRoutes = (app: App, ctx: Context): void => {
  app.get(
    '/healthz',
    {
      config: { permission: null },
      schema: {
        operationId: 'getHealth',
        summary: 'Check that the process runs',
        description: 'Answers 200 while the process runs. Needs no key.',
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
      config: { permission: null },
      schema: {
        operationId: 'getReadiness',
        summary: 'Check that requests are served',
        description: 'Answers 200 once requests are served, 503 while the database is away. Needs no key.',
        tags: ['Health'],
        answer: 'Requests are served.',
        examples: {
          response: { ready: { summary: 'Requests are served', value: { status: 'ok', initialized: true } } },
        },
        response: { 200: readiness, ...failures(400, 500, 503) },
      },
    },
    async () => {
      // One question that only a reachable, migrated database can answer.
      const initialized = await ctx.db.hasTenants();
      return { status: 'ok' as const, initialized };
    },
  );
};
