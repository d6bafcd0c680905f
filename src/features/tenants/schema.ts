// Wire shapes of /tenants/self.
import { z } from 'zod';
import { nameSchema } from '../../access/tenants.ts';
import { APPLICATION_ID, CREATED_AT, TENANT_ID } from '../../http/openapi-examples.ts';
import type { Examples } from '../../http/schemas.ts';
import { isStorableText } from '../../vault/json.ts';

/** background.md section 1 says that settings are a map of strings; as large as the metadata of a token. */
const SETTINGS_MAX = 50;
const SETTING_NAME_LENGTH_MAX = 200;
const SETTING_LENGTH_MAX = 500;

const date = (description: string) => z.string().meta({ description, format: 'date-time', example: CREATED_AT });
const uuid = (description: string, example: string) => z.string().meta({ description, format: 'uuid', example });

const flag = z.enum(['true', 'false'], 'must be the text true or the text false').optional();

const settingsRefusal = `must have at most ${SETTINGS_MAX} settings, with names of 1 to ${SETTING_NAME_LENGTH_MAX} characters`;

const settings = z
  .object(
    {
      deduplicate_token: flag.meta({
        description: 'Whether equal values share a token where a request does not say.',
        example: 'true',
      }),
      deduplicate_tokens: flag.meta({ description: 'What older clients call it.', example: 'true' }),
    },
    'must be an object of texts',
  )
  .catchall(
    z
      .string('must be text')
      .max(SETTING_LENGTH_MAX, `must have at most ${SETTING_LENGTH_MAX} characters`)
      .refine(isStorableText, 'must be text without NUL and in whole characters'),
  )
  .refine((given) => {
    const names = Object.keys(given);
    const isName = (name: string): boolean =>
      name.length > 0 && name.length <= SETTING_NAME_LENGTH_MAX && isStorableText(name);
    return names.length <= SETTINGS_MAX && names.every(isName);
  }, settingsRefusal)
  .meta({
    id: 'SettingsOfTenant',
    description: `At most ${SETTINGS_MAX} settings. The vault keeps those that it does not know.`,
    maxProperties: SETTINGS_MAX,
    propertyNames: { type: 'string', minLength: 1, maxLength: SETTING_NAME_LENGTH_MAX },
  })
  .transform((given) => given as Record<string, string>);

export const tenantChange = z
  .object(
    {
      name: nameSchema.meta({ description: 'For people.', example: 'Example Shop' }),
      settings: settings.default({}).meta({
        description: 'How the tenant is set up. Left out: empty. What the vault does not know it keeps.',
        example: { deduplicate_token: 'true' },
      }),
    },
    'the body must be an object',
  )
  .meta({ id: 'UpdateTenantRequest', description: 'All that changes, replaced as a whole.' });

export const tenantRecord = z
  .object({
    id: uuid('The tenant.', TENANT_ID),
    owner_id: uuid('The user who owns the tenant. Left out where it is the operator.', APPLICATION_ID).optional(),
    name: z.string().meta({ description: 'For people.', example: 'Example Shop' }),
    settings: z
      .record(z.string(), z.string())
      .meta({ description: 'How the tenant is set up.', example: { deduplicate_token: 'true' } }),
    created_by: uuid("Who made it. Left out for the operator's.", APPLICATION_ID).optional(),
    created_at: date('When it was made.'),
    modified_by: uuid('Who changed it last.', APPLICATION_ID).optional(),
    modified_at: date('When it was changed last.').optional(),
  })
  .meta({ id: 'Tenant', description: 'The owner of everything.' });

export const usageReport = z
  .object({
    token_report: z
      .object({
        metrics_by_type: z
          .record(
            z.string(),
            z
              .object({
                count: z.int().meta({ description: 'Tokens of this type.', example: 42 }),
                last_created_at: date('When the last one was made.').optional(),
              })
              .meta({ id: 'TokenMetrics', description: 'What is known of the tokens of a type.' }),
          )
          .meta({ description: 'By token type. A type without tokens is left out.' }),
      })
      .meta({ id: 'TokenReport', description: 'About tokens.' }),
  })
  .meta({ id: 'UsageReport', description: 'What the tenant keeps.' });

const asked = { name: 'Example Shop', settings: { deduplicate_token: 'true' } };
const record = { id: TENANT_ID, ...asked, created_at: CREATED_AT };
const summary = 'Equal values share a token';

export const tenantExamples: { response: Examples } = { response: { shop: { summary, value: record } } };

export const tenantChangeExamples: { request: Examples; response: Examples } = {
  request: { shop: { summary, value: asked } },
  response: {
    shop: {
      summary,
      value: { ...record, modified_by: APPLICATION_ID, modified_at: '2026-11-21T09:30:00.000Z' },
    },
  },
};

export const usageExamples: { response: Examples } = {
  response: {
    some: {
      summary: 'Cards and names',
      value: {
        token_report: {
          metrics_by_type: {
            card: { count: 42, last_created_at: CREATED_AT },
            token: { count: 7, last_created_at: CREATED_AT },
          },
        },
      },
    },
  },
};
