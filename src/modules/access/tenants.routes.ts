// Routes and schemas of /tenants/self: the tenant of the caller, and its usage report.
import { ECHO_GUARD_TEXT, echoModeSchema } from './echo-mode.ts';
import { delegatedPaymentsSetting } from './delegated-payments.ts';
import { z } from 'zod';
import { isPlainName, nameSchema } from './names.ts';
import { USAGE_DAYS_MAX, usageSteps } from './usage-report.ts';
import { usageKinds } from '../../platform/db/audit-record.ts';
import {
  APPLICATION_ID,
  bodyFailures,
  boundary,
  commonFailures,
  CREATED_AT,
  date,
  type Examples,
  failures,
  history,
  modified,
  noContent,
  oneOf,
  oneUuid,
  TENANT_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { isStorableText, NOT_STORABLE } from '../../platform/json/json.ts';
import { optional, optionalWith, withoutNulls } from '../../platform/base/optional.ts';
import { changeTenant, deleteTenant, getTenant, reportUsage } from './tenants.ts';
import type { AccessContext } from './context.ts';
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { workOf } from './authenticate.ts';

/** Settings of a tenant: as many as a token has metadata. */
export const SETTINGS_MAX = 50;
const SETTING_NAME_LENGTH_MAX = 200;
const SETTING_LENGTH_MAX = 500;

const flag = optional(z.enum(['true', 'false'], 'must be the text true or the text false'));

const settingsRefusal = `must have at most ${SETTINGS_MAX} settings, with names of 1 to ${SETTING_NAME_LENGTH_MAX} characters without blanks at their ends and control characters`;

const settings = z
  .object(
    {
      deduplicate_token: flag.meta({
        description: 'Whether equal values share a token, where a request does not say it.',
        example: 'true',
      }),
      deduplicate_tokens: flag.meta({
        description: 'The same setting under the name that clients of the earlier API use.',
        example: 'true',
      }),
      absent_paths: optional(z.enum(['null', 'error'], 'must be the text null or the text error')).meta({
        description:
          'What an expression gives for a path that a token has not: `error` (also if left out), or `null` as before.',
        example: 'error',
      }),
      echo_guard: optional(echoModeSchema).meta({
        description: `${ECHO_GUARD_TEXT} For proxies, reactors and applications that do not say it. Left out: off.`,
        example: 'mask',
      }),
      reveal_reason: optional(z.enum(['required', 'off'], 'must be the text required or the text off')).meta({
        description:
          'Whether members give a reason before the console shows them a value: `required`, or `off` (also if left out). API keys are not affected, and can only make it stricter.',
        example: 'required',
      }),
      require_second_factor: flag.meta({
        description:
          'Whether members need a second factor in the console. Left out: the server says it. API keys are not affected, and can only make it stricter.',
        example: 'true',
      }),
      delegated_payments: optional(delegatedPaymentsSetting).meta({
        description:
          'Whether agents may hand over cards at `POST /agentic_commerce/delegate_payment`: JSON with `proxies`, the ids of the stored proxies that may charge them, `container`, and `signing_keys`, Ed25519 public keys in base64url. Left out: they may not.',
        example: '{"proxies":["d3f60b7c-94a1-4e28-8b5d-7a2c9e1f4063"]}',
      }),
    },
    'must be an object of texts',
  )
  .catchall(
    z
      .string('must be text')
      .max(SETTING_LENGTH_MAX, `must have at most ${SETTING_LENGTH_MAX} characters`)
      .refine(isStorableText, NOT_STORABLE)
      .nullable(),
  )
  .refine((given) => {
    const names = Object.keys(given);
    const isName = (name: string): boolean => name.length <= SETTING_NAME_LENGTH_MAX && isPlainName(name);
    return names.length <= SETTINGS_MAX && names.every(isName);
  }, settingsRefusal)
  .meta({
    id: 'SettingsOfTenant',
    description: `The settings of a tenant: at most ${SETTINGS_MAX}. The vault stores settings that it does not know.`,
    maxProperties: SETTINGS_MAX,
    propertyNames: { type: 'string', minLength: 1, maxLength: SETTING_NAME_LENGTH_MAX },
  })
  .transform((given) => withoutNulls(given) as Record<string, string>);

const tenantChange = z
  .object(
    {
      name: nameSchema.meta({ description: 'The name of the tenant.', example: 'Example Shop' }),
      settings: optionalWith(settings, {}).meta({
        description: 'The settings of the tenant. Left out: none.',
        example: { deduplicate_token: 'true' },
      }),
    },
    'the body must be an object',
  )
  .meta({ id: 'UpdateTenantRequest', description: 'The new state of the tenant, as a whole.' });

const tenantRecord = z
  .object({
    id: uuid('The id of the tenant.', TENANT_ID),
    owner_id: uuid(
      'The id of the user who owns the tenant. Left out where it is the operator.',
      APPLICATION_ID,
    ).optional(),
    name: z.string().meta({ description: 'The name of the tenant.', example: 'Example Shop' }),
    settings: z
      .record(z.string(), z.string())
      .meta({ description: 'The settings of the tenant.', example: { deduplicate_token: 'true' } }),
    ...history,
  })
  .meta({ id: 'Tenant', description: 'A tenant. Every other record belongs to one.' });

const usageQuery = z.object({
  from: boundary(
    'The beginning of what is counted, rounded down to a whole hour or day in UTC. Needed for `usage_report`.',
  ),
  to: boundary(
    `The end of it, rounded up. Left out: now. At most ${USAGE_DAYS_MAX.hour} days after \`from\` by hour, ${USAGE_DAYS_MAX.day} by day.`,
  ),
  by: oneOf(usageSteps, 'The length of a step. Left out: `hour`.', 'day'),
  application_id: oneUuid('Only requests that this application asked for.', APPLICATION_ID),
});

const milliseconds = (share: string) =>
  z
    .number()
    .optional()
    .meta({
      description: `The time in milliseconds that ${share} of the requests took at most, from 12 buckets. 10000: that or more.`,
      example: 41.5,
    });

const usageMetric = z
  .object({
    start: date('The beginning of the step.'),
    kind: z.string().meta({
      description:
        'What the requests did. `stored`, `used`, `revealed`, `masked`: with tokens. `refused`: a permission was missing, or a run was refused. `failed`: a run ended in another way than `success` and `refused`, or the response had a status from 500 on. A request counts once for each kind.',
      'x-extensible-enum': [...usageKinds],
      example: 'used',
    }),
    requests: z.int().meta({ description: 'The number of requests.', example: 120 }),
    tokens: z.int().meta({ description: 'The number of tokens, each once in a request.', example: 180 }),
    p50_ms: milliseconds('half'),
    p95_ms: milliseconds('95 %'),
  })
  .meta({ id: 'UsageMetric', description: 'What requests of one kind did in an hour or a day.' });

const usageReport = z
  .object({
    total_tokens: z.int().meta({ description: 'The number of tokens of all types.', example: 49 }),
    token_report: z
      .object({
        metrics_by_type: z
          .record(
            z.string(),
            z
              .object({
                count: z.int().meta({ description: 'The number of tokens of this type.', example: 42 }),
                last_created_at: date('When the last of them was created.').optional(),
              })
              .meta({ id: 'TokenMetrics', description: 'Figures about the tokens of a type.' }),
          )
          .meta({ description: 'Figures by token type, without types that have no tokens.' }),
      })
      .meta({ id: 'TokenReport', description: 'Figures about tokens.' }),
    usage_report: z
      .object({
        by: z.enum(usageSteps).meta({
          description: 'The length of a step.',
          'x-extensible-enum': [...usageSteps],
          example: 'hour',
        }),
        from: date('The beginning of the first step, in UTC.'),
        to: date('The end of the last step.'),
        metrics: z.array(usageMetric).meta({ description: 'By step and kind, oldest first.' }),
      })
      .optional()
      .meta({ id: 'HoursReport', description: 'What requests did by hour or by day. Left out without `from`.' }),
  })
  .meta({ id: 'TenantUsage', description: 'Figures about what the tenant stores.' });

const asked = { name: 'Example Shop', settings: { deduplicate_token: 'true' } };
const record = { id: TENANT_ID, ...asked, created_at: CREATED_AT };
const summary = 'Equal values share a token';

const tenantExamples: { response: Examples } = { response: { shop: { summary, value: record } } };

const tenantChangeExamples: { request: Examples; response: Examples } = {
  request: { shop: { summary, value: asked } },
  response: {
    shop: {
      summary,
      value: { ...record, ...modified },
    },
  },
};

const usageExamples: { response: Examples } = {
  response: {
    some: {
      summary: 'Tokens of two types, and what an hour did',
      value: {
        total_tokens: 49,
        token_report: {
          metrics_by_type: {
            card: { count: 42, last_created_at: CREATED_AT },
            token: { count: 7, last_created_at: CREATED_AT },
          },
        },
        usage_report: {
          by: 'hour',
          from: '2026-11-20T18:00:00.000Z',
          to: '2026-11-20T19:00:00.000Z',
          metrics: [
            { start: '2026-11-20T18:00:00.000Z', kind: 'used', requests: 120, tokens: 180, p50_ms: 41.5, p95_ms: 220 },
          ],
        },
      },
    },
  },
};

const tags = ['Tenants'];

export const tenantsRoutes = (app: App, ctx: AccessContext): void => {
  app.get(
    '/tenants/self',
    {
      config: { permission: 'tenant:read' },
      schema: {
        operationId: 'getTenant',
        summary: 'Read the tenant',
        description: 'Reads the tenant that the API key belongs to.\n\nPermission: `tenant:read`.',
        tags,
        answer: 'The tenant.',
        examples: tenantExamples,
        response: { 200: tenantRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getTenant(ctx, workOf(request)),
  );

  app.put(
    '/tenants/self',
    {
      config: { permission: 'tenant:update' },
      schema: {
        operationId: 'updateTenant',
        summary: 'Change the tenant',
        description:
          'Replaces name and settings. The change is effective at once, in all processes of the vault. A key that would take away that members need a second factor gets a 403: a member does so in the console.\n\nPermission: `tenant:update`.',
        tags,
        body: tenantChange,
        answer: 'The changed tenant.',
        examples: tenantChangeExamples,
        response: { 200: tenantRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await changeTenant(ctx, workOf(request), request.body)),
  );

  app.delete(
    '/tenants/self',
    {
      config: { permission: 'tenant:delete' },
      schema: {
        operationId: 'deleteTenant',
        summary: 'Delete the tenant',
        description:
          'Deletes the tenant for good. Its encryption keys are destroyed, so that no one can read what it stored. All its API keys end, including the key of the caller.\n\nPermission: `tenant:delete`.',
        tags,
        answer: 'The tenant is deleted.',
        response: { 204: noContent, ...failures(...commonFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await deleteTenant(ctx, workOf(request))),
  );

  app.get(
    '/tenants/self/reports/usage',
    {
      config: { permission: 'report:read' },
      schema: {
        operationId: 'getUsageReport',
        summary: 'Read the usage report',
        description:
          'Counts the tokens of the tenant by type. With `from`, also what requests did by hour or by day: they stored, used, revealed or masked tokens, were refused, or failed. Processes add their figures once a minute, so the last minute is not in them, and a process that dies loses at most a minute of its own. Hours in which nothing was done are left out. Kept for `USAGE_RETENTION_DAYS`.\n\nPermission: `report:read`.',
        tags,
        querystring: usageQuery,
        answer: 'The report.',
        examples: usageExamples,
        response: { 200: usageReport, ...failures(...commonFailures) },
      },
    },
    async (request) => reportUsage(ctx, workOf(request), request.query),
  );
};
