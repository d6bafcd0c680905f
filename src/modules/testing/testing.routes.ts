// Routes below /test, for tests in any language: the clock, further tenants, and the fake processor. Only with TEST_ENDPOINTS.
import { z } from 'zod';
import { optional } from '../../platform/base/optional.ts';
import { nameSchema } from '../access/names.ts';
import type { App } from '../../platform/http/app-type.ts';
import { invalidField } from '../../platform/base/errors.ts';
import type { PeopleContext } from '../people/context.ts';
import { createTenant } from '../people/bootstrap.ts';
import { sweep } from '../tokens/sweep.ts';
import { type Processor, startProcessor } from './processor.ts';

const UNITS_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** A time as tests write it, such as `90s`, `15m`, `1h` or `30d`, in milliseconds. */
const advance = z
  .string()
  .regex(/^[1-9]\d{0,8}[smhd]$/, 'must be a time such as 90s, 15m, 1h or 30d')
  .transform((text) => Number.parseInt(text, 10) * UNITS_MS[text.at(-1) as keyof typeof UNITS_MS]);

const clockChange = z.object({ advance });

const newTenant = z.object({ name: optional(nameSchema) });

/** A page of another site cannot send a key: without one, any page in a browser on this machine could change the clock. */
const config = { permission: 'tenant:update' } as const;

/** They are in no document of the API: a vault that serves a tenant does not have them. */
const hidden = { hide: true } as const;

export const testingRoutes = (app: App, ctx: PeopleContext): void => {
  const { testClock } = ctx;
  if (!testClock) return;

  app.post('/test/clock', { config, schema: { ...hidden, body: clockChange } }, async (request) => {
    if (!testClock.advance(request.body.advance))
      throw invalidField('advance', 'must not take the clock more than ten years ahead');
    // What is due by now is done before the test goes on, such as the deletion of expired tokens.
    await sweep(ctx);
    return { now: testClock.now().toISOString() };
  });

  app.post('/test/tenants', { config, schema: { ...hidden, body: newTenant } }, async (request, reply) => {
    const made = await createTenant(ctx, { name: request.body.name ?? 'Test' });
    if (!made) throw new Error('no tenant was made');
    const { tenant_id, application_id, api_key } = made;
    return reply.status(201).send({ tenant_id, application_id, api_key: api_key.reveal() });
  });

  let starting: Promise<Processor> | undefined;
  ctx.onClose(async () => (await starting)?.stop());
  /** Started by the first test that asks for it: the npm package for tests has its own. */
  const findProcessor = (): Promise<Processor> => {
    starting ??= startProcessor(ctx.config.dataDir).catch((error: unknown) => {
      starting = undefined;
      throw error;
    });
    return starting;
  };

  app.get('/test/requests', { config, schema: hidden }, async () => {
    const { url, requests } = await findProcessor();
    return { processor_url: url, data: requests };
  });

  app.delete('/test/requests', { config, schema: hidden }, async (_request, reply) => {
    (await findProcessor()).requests.length = 0;
    return reply.status(204).send();
  });
};
