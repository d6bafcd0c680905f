// Schemas of /tenants/self.
import { z } from 'zod';
import { isPlainName, nameSchema } from './names.ts';
import { USAGE_DAYS_MAX, usageSteps } from './usage-report.ts';
import { usageKinds } from '../../platform/db/audit-record.ts';
import { boundary, oneOf, oneUuid } from '../../platform/http/list-parameters.ts';
import {
  date,
  type Examples,
  history,
  uuid,
  APPLICATION_ID,
  CREATED_AT,
  modified,
  TENANT_ID,
} from '../../platform/http/schemas.ts';
import { isStorableText, NOT_STORABLE } from '../../platform/json/json.ts';
import { optional, optionalWith, withoutNulls } from '../../platform/base/optional.ts';

/** As many as a token has metadata. */
const SETTINGS_MAX = 50;
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
      require_second_factor: flag.meta({
        description:
          'Whether members need a second factor in the console. Left out: the server says it. API keys are not affected, and can only make it stricter.',
        example: 'true',
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

export const tenantChange = z
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

export const tenantRecord = z
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

export const usageQuery = z.object({
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

export const usageReport = z
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

export const tenantExamples: { response: Examples } = { response: { shop: { summary, value: record } } };

export const tenantChangeExamples: { request: Examples; response: Examples } = {
  request: { shop: { summary, value: asked } },
  response: {
    shop: {
      summary,
      value: { ...record, ...modified },
    },
  },
};

export const usageExamples: { response: Examples } = {
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
