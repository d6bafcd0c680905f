// Wire shapes of /applications. The rules of an application are checked by the schema in access/rules.ts; the one here
// tells the reader of the document what they are.
import { z } from 'zod';
import { allowedHostsSchema, HOSTS_IN_DOCUMENTS } from '../../access/allowed-hosts.ts';
import { applicationTypes, type Permission, permissions } from '../../access/permissions.ts';
import {
  accessRuleSchema,
  CONDITION_VALUE_LENGTH_MAX,
  conditionAttributes,
  conditionOperators,
  CONDITIONS_MAX,
  RULE_DESCRIPTION_LENGTH_MAX,
  RULE_PRIORITY_MAX,
  ruleTransforms,
} from '../../access/rules.ts';
import { nameSchema } from '../../access/tenants.ts';
import { APPLICATION_ID, CREATED_AT, TENANT_ID } from '../../http/openapi-examples.ts';
import { onlyPage, pageQuery, pageSchema, repeated } from '../../http/pagination.ts';
import type { Examples } from '../../http/schemas.ts';
import { containerPath } from '../../http/token-request-schema.ts';
import { isStorableText } from '../../vault/json.ts';

/** background.md section 1. */
const PERMISSIONS_MAX = 50;
const RULES_MAX = 50;

const KEY_IN_DOCUMENTS = 'svc_test_ExampleExample00_ExampleExampleExampleExample00000000000';
const EXAMPLE_ID = '2b7d9e40-61c5-4f8a-9d12-8e3a5c7f0b64';

const date = (description: string) => z.string().meta({ description, format: 'date-time', example: CREATED_AT });
const uuid = (description: string, example: string) => z.string().meta({ description, format: 'uuid', example });

/** However it is spelled, it is one id. */
const givenUuid = z.guid('must be a UUID').toLowerCase();

const accessRule = z
  .object({
    description: z
      .string()
      .max(RULE_DESCRIPTION_LENGTH_MAX)
      .optional()
      .meta({ description: 'What the rule is for, in words.', example: 'Support sees the last digits' }),
    priority: z.int().min(1).max(RULE_PRIORITY_MAX).meta({
      description: 'The first rule that names the permission and reaches the token decides, 1 before 2.',
      example: 1,
    }),
    container: containerPath.optional().meta({
      description:
        'The rule reaches the tokens in this container and in those below it. A rule has either this or `conditions`.',
      example: '/pci/',
    }),
    conditions: z
      .array(
        z
          .object({
            attribute: z.enum(conditionAttributes).meta({
              description: 'The attribute of the token.',
              'x-extensible-enum': [...conditionAttributes],
              example: 'id',
            }),
            operator: z.enum(conditionOperators).meta({
              description: 'How the attribute is compared with the value.',
              'x-extensible-enum': [...conditionOperators],
              example: 'starts_with',
            }),
            value: z
              .string()
              .min(1)
              .max(CONDITION_VALUE_LENGTH_MAX)
              .meta({ description: 'The value. Case counts in ids, not in containers.', example: 'order-' }),
          })
          .meta({ id: 'AccessCondition', description: 'A condition that a token must meet.' }),
      )
      .max(CONDITIONS_MAX)
      .optional()
      .meta({
        description:
          'The rule reaches the tokens that meet all of these. A rule has either this or `container`; an empty list counts as absent.',
      }),
    transform: z.enum(ruleTransforms).meta({
      'x-extensible-enum': [...ruleTransforms],
      description: 'How much of a token is shown: nothing of its data, its masked value, or the data itself.',
      example: 'mask',
    }),
    permissions: z
      .array(
        z.string().meta({
          'x-extensible-enum': permissions.filter((each) => each.startsWith('token:')),
          example: 'token:read',
        }),
      )
      .min(1)
      .meta({ description: 'The permissions on tokens that the rule grants.' }),
  })
  .meta({
    id: 'AccessRule',
    description: 'Which tokens some permissions reach, and how much of these tokens is shown.',
  });

const storable = 'must be text without NUL and in whole characters';

const givenRule = accessRuleSchema.superRefine((rule, ctx) => {
  if (!isStorableText(rule.description)) ctx.addIssue({ code: 'custom', path: ['description'], message: storable });
  for (const [index, { value }] of (rule.conditions ?? []).entries())
    if (!isStorableText(value))
      ctx.addIssue({ code: 'custom', path: ['conditions', index, 'value'], message: storable });
});

const fields = {
  name: nameSchema.meta({ description: 'The name of the application.', example: 'Checkout' }),
  permissions: z
    .array(
      z
        .enum(permissions, 'must be a permission; GET /permissions lists them')
        .meta({ 'x-extensible-enum': permissions, example: 'token:create' }),
      'must be a list of permissions',
    )
    .max(PERMISSIONS_MAX, `must be at most ${PERMISSIONS_MAX} permissions`)
    .default([])
    .meta({
      description:
        'The permissions of the application; those on tokens hold for all tokens. At least one, or a rule. Left out: none.',
    }),
  rules: z
    .array(z.any().meta({ allOf: [{ $ref: '#/components/schemas/AccessRule' }] }), 'must be a list of rules')
    .max(RULES_MAX, `must be at most ${RULES_MAX} rules`)
    .pipe(z.array(givenRule))
    .default([])
    .meta({
      description:
        'The access rules: permissions on some tokens, and how much of these the application sees. Left out: none.',
    }),
  allowed_hosts: allowedHostsSchema.meta({
    description: `Narrows where the application may send to through the proxy. ${HOSTS_IN_DOCUMENTS} Left out: not narrowed.`,
    example: ['api.example.com'],
  }),
};

const isNotEmpty = (given: unknown): boolean => Array.isArray(given) && given.length > 0;

/** Looked at beside every other problem of the body: what is there but wrong is not missing. */
const holdsSomething = {
  path: ['permissions'],
  error: 'must name a permission, unless there is a rule',
  when: ({ value }: { value: unknown }) => typeof value === 'object' && value !== null,
};

const hasGrants = ({ permissions: named, rules }: { permissions?: unknown; rules?: unknown }): boolean =>
  named === undefined || rules === undefined || isNotEmpty(named) || isNotEmpty(rules);

const bodyError = 'the body must be an object';

export const newApplication = z
  .object(
    {
      ...fields,
      type: z.enum(applicationTypes, 'must be private, public or management').default('private').meta({
        description:
          'What the application is meant for. A label: it limits nothing, and cannot change. Left out: `private`.',
        example: 'private',
      }),
    },
    bodyError,
  )
  .refine(hasGrants, holdsSomething)
  .meta({ id: 'CreateApplicationRequest', description: 'An application to create.' });

export const applicationChange = z.object(fields, bodyError).refine(hasGrants, holdsSomething).meta({
  id: 'UpdateApplicationRequest',
  description: 'The new state of the application, as a whole.',
});

export const applicationRecord = z
  .object({
    id: uuid('The id of the application.', EXAMPLE_ID),
    tenant_id: uuid('The id of the tenant that owns the application.', TENANT_ID),
    name: z.string().meta({ description: 'The name of the application.', example: 'Checkout' }),
    type: z.string().meta({
      description: 'What the application is meant for.',
      'x-extensible-enum': [...applicationTypes],
      example: 'private',
    }),
    permissions: z
      .array(z.string().meta({ 'x-extensible-enum': permissions, example: 'token:create' }))
      .meta({ description: 'The permissions of the application.' }),
    rules: z.array(accessRule).meta({ description: 'The access rules of the application.' }),
    allowed_hosts: z
      .array(z.string().meta({ example: 'api.example.com' }))
      .optional()
      .meta({ description: 'The hosts that the application may send to through the proxy. Left out: not narrowed.' }),
    key: z.string().optional().meta({
      description: 'The API key. Only the answer that created it has it.',
      format: 'password',
      example: KEY_IN_DOCUMENTS,
    }),
    created_by: uuid(
      'The id of the application or user that created it. Left out where the operator did.',
      APPLICATION_ID,
    ).optional(),
    created_at: date('When it was created.'),
    modified_by: uuid('The id of the application or user that changed it last.', APPLICATION_ID).optional(),
    modified_at: date('When the application or its key was changed last.').optional(),
  })
  .meta({ id: 'Application', description: 'A client of the API, with its permissions.' });

export const applicationPage = pageSchema(applicationRecord, 'ApplicationPage');

export const applicationParams = z.object({
  id: givenUuid.meta({ description: 'The id of an application.', example: EXAMPLE_ID }),
});

export const applicationQuery = z.object({
  ...pageQuery(),
  id: repeated(givenUuid, 'Only these applications.', EXAMPLE_ID),
  type: repeated(
    z.enum(applicationTypes, 'must be private, public or management'),
    'Only applications of these types.',
    'private',
  ),
});

const asked: { name: string; permissions: Permission[]; rules: object[] } = {
  name: 'Checkout',
  permissions: ['token:create'],
  rules: [
    {
      description: 'Support sees the last digits',
      priority: 1,
      container: '/pci/',
      transform: 'mask',
      permissions: ['token:read'],
    },
  ],
};
const made = { created_by: APPLICATION_ID, created_at: CREATED_AT };
const shown = { id: EXAMPLE_ID, tenant_id: TENANT_ID, type: 'private' };
const changed = { modified_by: APPLICATION_ID, modified_at: '2026-11-21T09:30:00.000Z' };
const summary = 'Creates tokens, and reads cards masked';

export const newApplicationExamples: { request: Examples; response: Examples } = {
  request: { checkout: { summary, value: { ...asked, type: 'private' } } },
  response: { checkout: { summary, value: { ...shown, ...asked, key: KEY_IN_DOCUMENTS, ...made } } },
};

export const applicationExamples: { response: Examples } = {
  response: { checkout: { summary, value: { ...shown, ...asked, ...made } } },
};

export const applicationChangeExamples: { request: Examples; response: Examples } = {
  request: { checkout: { summary, value: asked } },
  response: { checkout: { summary, value: { ...shown, ...asked, ...made, ...changed } } },
};

export const regenerateExamples: { response: Examples } = {
  response: {
    checkout: {
      summary: 'With its new key',
      value: { ...shown, ...asked, key: KEY_IN_DOCUMENTS, ...made, ...changed },
    },
  },
};

export const applicationPageExamples: { response: Examples } = {
  response: {
    one: { summary: 'One application', value: { pagination: onlyPage(1), data: [{ ...shown, ...asked, ...made }] } },
  },
};
