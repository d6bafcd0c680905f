// Schemas of /applications. The schema in access-rule.ts checks access rules; the one here is for the OpenAPI document.
import {
  accessRuleSchema,
  CONDITION_VALUE_LENGTH_MAX,
  conditionAttributes,
  conditionOperators,
  CONDITIONS_MAX,
  RULE_DESCRIPTION_LENGTH_MAX,
  RULE_PRIORITY_MAX,
  ruleTransforms,
} from './access-rule.ts';
import { ECHO_GUARD_TEXT, echoModes, echoModeSchema } from './echo-mode.ts';
import { boundInDocuments, boundRequestInDocuments } from './bounds.ts';
import { containerPath } from './containers.schema.ts';
import { parseContainer } from './containers.ts';
import { ORIGINS_IN_DOCUMENTS, originsSchema } from './origins.ts';
import { CREATES_PER_MINUTE, CREATES_PER_MINUTE_MAX } from './public-access.ts';
import { z } from 'zod';
import { BURST_MAX, DAILY_TOKENS_MAX, REQUESTS_PER_SECOND_MAX } from '../../platform/base/application-limits.ts';
import { allowedHostsSchema, hostList, HOSTS_IN_DOCUMENTS } from '../../platform/egress/allowed-hosts.ts';
import { optional, optionalWith } from '../../platform/base/optional.ts';
import { applicationTypes, type Permission, notPermission, permissions } from './permissions.ts';
import { nameSchema } from './names.ts';
import {
  created,
  date,
  EXAMPLE_API_KEY,
  type Examples,
  givenUuid,
  history,
  modified,
  nameQuery,
  onlyPage,
  pageQuery,
  pageSchema,
  repeated,
  TENANT_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { isStorableText, NOT_STORABLE } from '../../platform/json/json.ts';

const PERMISSIONS_MAX = 50;
const RULES_MAX = 50;

const EXAMPLE_ID = '2b7d9e40-61c5-4f8a-9d12-8e3a5c7f0b64';

const accessCondition = z
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
  .meta({ id: 'AccessCondition', description: 'A condition that a token must meet.' });

/** @param absent makes a schema that of an attribute which may be left out: in requests null means the same. */
const describeRule = (absent: <T extends z.ZodType>(schema: T) => z.ZodOptional, bound: z.ZodType) =>
  z.object({
    description: absent(z.string().max(RULE_DESCRIPTION_LENGTH_MAX)).meta({
      description: 'The purpose of the rule.',
      example: 'Support sees the last digits',
    }),
    priority: z.int().min(1).max(RULE_PRIORITY_MAX).meta({
      description: 'The first rule with the permission that applies to the token decides, 1 before 2.',
      example: 1,
    }),
    container: absent(containerPath).meta({
      description:
        'The rule applies to the tokens in this container and in those below it. A rule has either this or `conditions`.',
      example: '/pci/',
    }),
    conditions: absent(z.array(accessCondition).max(CONDITIONS_MAX)).meta({
      description:
        'The rule applies to the tokens that meet all of these. A rule has either this or `container`; an empty list counts as absent.',
    }),
    transform: z.enum(ruleTransforms).meta({
      'x-extensible-enum': [...ruleTransforms],
      description: 'How much of a token the rule shows: nothing of its data, its masked value, or the data itself.',
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
    bound_to: absent(bound).meta({
      description:
        'Where the application may send the values of these tokens, how often and until when: for a rule whose only permission is `token:use`. `max_uses` counts for each token and application. To save the rule again confirms what it names.',
    }),
  });

const RULE_TEXT = 'Gives permissions on some tokens, and says how much of these tokens is shown.';

const accessRule = describeRule((schema) => schema.optional(), boundInDocuments).meta({
  id: 'AccessRule',
  description: RULE_TEXT,
});

/** For the OpenAPI document only, which refers to it by its id. */
describeRule((schema) => schema.nullish(), boundRequestInDocuments).meta({
  id: 'AccessRuleRequest',
  description: RULE_TEXT,
});

const givenRule = accessRuleSchema.superRefine((rule, ctx) => {
  if (!isStorableText(rule.description)) ctx.addIssue({ code: 'custom', path: ['description'], message: NOT_STORABLE });
  for (const [index, { value }] of (rule.conditions ?? []).entries())
    if (!isStorableText(value))
      ctx.addIssue({ code: 'custom', path: ['conditions', index, 'value'], message: NOT_STORABLE });
});

const wholeNumber = (least: number, most: number) => {
  const error = `must be a whole number from ${least} to ${most}`;
  return z.int(error).min(least, error).max(most, error);
};

const NO_LIMIT = "Left out or null: the operator's default, which is no limit unless the configuration has one.";

const requestsPerSecond = wholeNumber(1, REQUESTS_PER_SECOND_MAX);
const burst = wholeNumber(1, BURST_MAX);
const REQUESTS_PER_SECOND = 'Requests per second, in the long run.';

const givenRateLimit = z
  .object(
    {
      requests_per_second: requestsPerSecond.meta({ description: REQUESTS_PER_SECOND, example: 100 }),
      burst: optional(burst).meta({
        description: 'Requests that may come at once after a pause. Left out: as many as `requests_per_second`.',
        example: 200,
      }),
    },
    'must be an object with `requests_per_second`',
  )
  .transform(({ requests_per_second, burst: most = requests_per_second }) => ({ requests_per_second, burst: most }))
  .meta({ id: 'RateLimitRequest', description: 'A rate of requests.' });

const rateLimit = z
  .object({
    requests_per_second: requestsPerSecond.meta({ description: REQUESTS_PER_SECOND, example: 100 }),
    burst: burst.meta({ description: 'Requests that may come at once after a pause.', example: 200 }),
  })
  .meta({ id: 'RateLimit', description: 'A rate of requests.' });

const dailyTokens = wholeNumber(0, DAILY_TOKENS_MAX);
const DAILY_REVEALS =
  'Distinct tokens per day (UTC) whose value the application may get by reading, listing, searching and detokenizing. Masked values do not count. Each search term `data:` and `fingerprint:` counts as one more.';
const DAILY_USES =
  'Distinct tokens per day (UTC) that the application may use by reactors and the proxy, also in code that has its permissions.';

const givenLimits = {
  rate_limit: optional(givenRateLimit).meta({
    description: `Limits the requests with the key of the application. ${NO_LIMIT}`,
  }),
  daily_reveals: optional(dailyTokens).meta({ description: `${DAILY_REVEALS} ${NO_LIMIT}`, example: 1000 }),
  daily_uses: optional(dailyTokens).meta({ description: `${DAILY_USES} ${NO_LIMIT}`, example: 5000 }),
};

/** Limits alone, as the operator gives them. */
export const limitsSchema = z.strictObject(givenLimits, 'must be an object');

const ECHO_GUARD_OF_APPLICATION = `${ECHO_GUARD_TEXT} For requests with \`SVC-PROXY-URL\`, and for code that has its permissions.`;
const shownEchoMode = z.string().meta({ 'x-extensible-enum': [...echoModes] });

const oneContainer = 'must be a list of one container path';

const fields = {
  name: nameSchema.meta({ description: 'The name of the application.', example: 'Checkout' }),
  echo_guard: optional(echoModeSchema).meta({
    description: `${ECHO_GUARD_OF_APPLICATION} Left out: the setting of the tenant.`,
    example: 'mask',
  }),
  permissions: optionalWith(
    z
      .array(
        z
          .enum(permissions, {
            error: ({ input }) => notPermission('a permission; GET /permissions lists them', input, permissions),
          })
          .meta({ 'x-extensible-enum': permissions, example: 'token:create' }),
        'must be a list of permissions',
      )
      .max(PERMISSIONS_MAX, `must be at most ${PERMISSIONS_MAX} permissions`),
    [],
  ).meta({
    description:
      'The permissions of the application. Permissions on tokens are for all tokens. At least one, or a rule. Left out: none.',
  }),
  rules: optionalWith(
    z
      .array(z.any().meta({ allOf: [{ $ref: '#/components/schemas/AccessRuleRequest' }] }), 'must be a list of rules')
      .max(RULES_MAX, `must be at most ${RULES_MAX} rules`)
      .pipe(z.array(givenRule)),
    [],
  ).meta({
    description:
      'The access rules: permissions on some tokens, and how much of these tokens the application sees. Left out: none.',
  }),
  allowed_hosts: allowedHostsSchema.meta({
    description: `The hosts that the application may send to through the proxy. ${HOSTS_IN_DOCUMENTS} Left out: not limited.`,
    example: ['api.example.com'],
  }),
  ...givenLimits,
  allowed_origins: optionalWith(originsSchema, []).meta({
    description: `For public applications: the origins of the pages that may use the key. ${ORIGINS_IN_DOCUMENTS} Left out: no page may, only clients that send no Origin.`,
    example: ['https://shop.example.com'],
  }),
  containers: z
    .array(
      containerPath.transform((text) => parseContainer(text) ?? z.NEVER),
      oneContainer,
    )
    .max(1, oneContainer)
    .nullish()
    .transform((containers) => containers?.[0])
    .meta({
      description: 'For public applications: the container of its tokens. Left out: the container of each type.',
    }),
  creates_per_minute: optional(wholeNumber(1, CREATES_PER_MINUTE_MAX)).meta({
    description: `For public applications: how many tokens one client address may create in a minute. Left out: ${CREATES_PER_MINUTE}.`,
    example: CREATES_PER_MINUTE,
  }),
};

/** Rights of a change that is tried: what is left out, or null, stays. */
export const triedRights = {
  permissions: optional(fields.permissions).meta({ description: 'The new permissions. Left out: as they are.' }),
  rules: optional(fields.rules).meta({ description: 'The new access rules. Left out: as they are.' }),
  allowed_hosts: hostList.nullish().meta({
    description: `The new list of hosts. ${HOSTS_IN_DOCUMENTS} Left out: as it is. Null: not limited.`,
    example: ['api.example.com'],
  }),
};

const isNotEmpty = (given: unknown): boolean => Array.isArray(given) && given.length > 0;

/** Checked together with all other errors of the body. An invalid list does not count as missing. */
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
      type: optionalWith(z.enum(applicationTypes, 'must be private, public or management'), 'private').meta({
        description:
          '`public`: the key is in browsers and apps. It may hold `token:create` only, and its answers have no fingerprint. `private` and `management` limit nothing. The type cannot change. Left out: `private`.',
        example: 'private',
      }),
      create_key: optionalWith(z.boolean('must be true or false'), true).meta({
        description:
          'Whether the application gets an API key, which the response has. `false`: it has none until `POST /applications/{id}/keys`. Left out: true.',
        example: true,
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

const changedTargets = (what: string) =>
  z
    .array(z.string().meta({ example: '5ad1d10c-28cd-4bd4-a9d2-b5b1f7c9a4b5' }))
    .optional()
    .meta({ description: `The ids of the ${what} that have changed. Left out: none.` });

const suspendedRule = z
  .object({
    rule: z.int().meta({ description: 'The place of the rule in `rules`, from 0.', example: 0 }),
    proxies: changedTargets('stored proxies'),
    reactors: changedTargets('reactors'),
  })
  .meta({ id: 'SuspendedRule', description: 'A rule that gives less than it says, until it is confirmed.' });

export const newApiKeyMeta = {
  description: 'The API key. Only the response that created it has it.',
  format: 'password',
  example: EXAMPLE_API_KEY,
};

export const applicationRecord = z
  .object({
    id: uuid('The id of the application.', EXAMPLE_ID),
    tenant_id: uuid('The id of the tenant that owns the application.', TENANT_ID),
    name: z.string().meta({ description: 'The name of the application.', example: 'Checkout' }),
    type: z.string().meta({
      description: 'The purpose of the application.',
      'x-extensible-enum': [...applicationTypes],
      example: 'private',
    }),
    permissions: z
      .array(z.string().meta({ 'x-extensible-enum': permissions, example: 'token:create' }))
      .meta({ description: 'The permissions of the application.' }),
    rules: z.array(accessRule).meta({ description: 'The access rules of the application.' }),
    suspended_rules: z.array(suspendedRule).optional().meta({
      description:
        'The rules whose bound names proxies or reactors that have changed since the rule was saved, or are gone: they get no value by it. A save of the application confirms all of them. Only a read of one application has it. Left out: none.',
    }),
    allowed_hosts: z
      .array(z.string().meta({ example: 'api.example.com' }))
      .optional()
      .meta({ description: 'The hosts that the application may send to through the proxy. Left out: not limited.' }),
    rate_limit: rateLimit.optional(),
    daily_reveals: dailyTokens
      .optional()
      .meta({ description: `${DAILY_REVEALS} Left out: none named.`, example: 1000 }),
    echo_guard: shownEchoMode
      .optional()
      .meta({ description: `${ECHO_GUARD_OF_APPLICATION} Left out: the setting of the tenant.`, example: 'mask' }),
    daily_uses: dailyTokens.optional().meta({ description: `${DAILY_USES} Left out: none named.`, example: 5000 }),
    allowed_origins: z
      .array(z.string().meta({ example: 'https://shop.example.com' }))
      .optional()
      .meta({ description: 'Of a public application: the origins of the pages that may use the key.' }),
    containers: z
      .array(z.string().meta({ example: '/pci/high/' }))
      .optional()
      .meta({ description: 'Of a public application: the container of its tokens, if it names one.' }),
    creates_per_minute: z.int().optional().meta({
      description: 'Of a public application: how many tokens one client address may create in a minute.',
      example: CREATES_PER_MINUTE,
    }),
    key: z.string().optional().meta(newApiKeyMeta),
    keys_ended: z.int().optional().meta({
      description: 'How many API keys the request has ended. Only the response to a regeneration has it.',
      example: 2,
    }),
    last_used_at: date(
      'When the API key of the application was used last, to the minute. Left out: not yet.',
    ).optional(),
    ...history,
    modified_at: date('When the application or its key was changed last.').optional(),
  })
  .meta({ id: 'Application', description: 'A client of the API, with its permissions.' });

export const applicationWithKey = applicationRecord
  .extend({ key: z.string().meta(newApiKeyMeta) })
  .meta({ id: 'ApplicationWithKey', description: 'A client of the API, with its new key.' });

export const applicationPage = pageSchema(applicationRecord, 'ApplicationPage');

export const applicationParams = z.object({
  id: givenUuid.meta({ description: 'The id of an application.', example: EXAMPLE_ID }),
});

export const applicationQuery = z.object({
  ...pageQuery(),
  id: repeated(givenUuid, 'Only these applications.', EXAMPLE_ID),
  name: nameQuery('Only applications of this name.', 'Check*'),
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
const shown = { id: EXAMPLE_ID, tenant_id: TENANT_ID, type: 'private' };
const summary = 'Creates tokens, and reads cards masked';

export const newApplicationExamples: { request: Examples; response: Examples } = {
  request: { checkout: { summary, value: { ...asked, type: 'private' } } },
  response: { checkout: { summary, value: { ...shown, ...asked, key: EXAMPLE_API_KEY, ...created } } },
};

export const applicationExamples: { response: Examples } = {
  response: { checkout: { summary, value: { ...shown, ...asked, ...created } } },
};

export const applicationChangeExamples: { request: Examples; response: Examples } = {
  request: { checkout: { summary, value: asked } },
  response: { checkout: { summary, value: { ...shown, ...asked, ...created, ...modified } } },
};

export const regenerateExamples: { response: Examples } = {
  response: {
    checkout: {
      summary: 'With its new key',
      value: { ...shown, ...asked, key: EXAMPLE_API_KEY, keys_ended: 2, ...created, ...modified },
    },
  },
};

export const applicationPageExamples: { response: Examples } = {
  response: {
    one: { summary: 'One application', value: { pagination: onlyPage(1), data: [{ ...shown, ...asked, ...created }] } },
  },
};
