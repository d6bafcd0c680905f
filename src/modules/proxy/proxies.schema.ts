// Request and response schemas of /proxies. proxy-input.ts validates destinations, configurations, code and certificates.
import { fieldName } from '../../platform/egress/headers.ts';
import { ECHO_GUARD_TEXT, echoModes, echoModeSchema } from '../access/echo-mode.ts';
import { z } from 'zod';
import { amountRuleGiven, amountRuleShown } from './amount-rule.ts';
import { codeRuleGiven, codeRuleShown } from './code-rule.ts';
import { allowedHostsSchema, hostList, HOSTS_IN_DOCUMENTS } from '../../platform/egress/allowed-hosts.ts';
import { nameSchema } from '../access/names.ts';
import { BODY_MS, TIMEOUT_SECONDS } from '../../platform/base/times.ts';
import {
  APPLICATION_ID,
  applicationReference,
  created,
  date,
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
import { optional, optionalWith } from '../../platform/base/optional.ts';
import { DESTINATION_URL_LENGTH_MAX, GRACE_SECONDS_MAX, PEM_LENGTH_MAX } from './proxy-input.ts';
import { noteField } from '../code/versions.schema.ts';
import { isStorableText, NOT_STORABLE } from '../../platform/json/json.ts';
import { codeOfMask, isPattern, MASK_EXPRESSION_LENGTH_MAX, MASK_REPLACEMENT_LENGTH_MAX } from './mask-transform.ts';
import { configurationKeywords, ELEMENTS_MAX, formulaFields } from '../code/formula-fields.ts';
import { CONFIGURATION_TEXT_LENGTH_MAX } from '../reactors/reactors.ts';

/** What the examples of the OpenAPI document show. */
export const exampleProxy = {
  id: 'd3f60b7c-94a1-4e28-8b5d-7a2c9e1f4063',
  tenant_id: TENANT_ID,
  key: 'ExampleExampleExampleExample0000',
  name: 'Payments',
  destination_url: 'https://api.example.com/v1',
  require_auth: true,
  expressions: 'on' as const,
  timeout_seconds: 60,
  request_transform: {
    code: `module.exports = async ({ args, configuration }) => ({
  body: args.body,
  headers: { ...args.headers, authorization: \`Bearer \${configuration.API_KEY}\` },
});
`,
  },
  application_id: APPLICATION_ID,
  configuration: { API_KEY: 'example-key' },
  allowed_hosts: ['api.example.com'],
  ...created,
};

const { id: EXAMPLE_ID } = exampleProxy;

const CERTIFICATE_IN_DOCUMENTS = '-----BEGIN CERTIFICATE-----\n...\n-----END CERTIFICATE-----\n';
const PRIVATE_EXAMPLE_API_KEY = '-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n';

const KEY_HEADER_EXAMPLE = 'Idempotency-Key';
const KEY_HEADER_TEXT =
  'The header in which the destination takes an idempotency key, such as `Idempotency-Key`. Of a request with `SVC-IDEMPOTENCY-KEY` the destination gets a key made of it there, and a request whose outcome is not known is sent again. Only for a destination that does what a key stands for once.';
/** Longer than the name of any header in use. */
const KEY_HEADER_LENGTH_MAX = 64;
/** Those that say something else, and those that the proxy sets or does not forward. */
const otherHeaders =
  /^(?:svc-.*|proxy-.*|authorization|cookie|accept.*|content-.*|host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|date|cdn-loop|http2-settings|user-agent|forwarded|x-forwarded-.*|via)$/i;
const keyHeaderError = `must be the name of a header of at most ${KEY_HEADER_LENGTH_MAX} characters that is for an idempotency key alone`;
const keyHeader = z
  .string(keyHeaderError)
  .max(KEY_HEADER_LENGTH_MAX, keyHeaderError)
  .refine((name) => fieldName.test(name) && !otherHeaders.test(name), keyHeaderError);

const AMOUNT_TEXT =
  'Where requests have their amount and currency, for values whose `bound_to` has an `allowance`. It is read from the body as it leaves, after the request transform.';

const timeoutError = `must be a whole number from ${TIMEOUT_SECONDS.least} to ${TIMEOUT_SECONDS.most}`;

const urlError = `must be an https URL of at most ${DESTINATION_URL_LENGTH_MAX} characters`;

const PATTERN_ERROR = `must be a regular expression of JavaScript, of at most ${MASK_EXPRESSION_LENGTH_MAX} characters`;

const REPLACEMENT_ERROR = `must be text of at most ${MASK_REPLACEMENT_LENGTH_MAX} characters`;

const RESPONSE_CODE_IN_DOCUMENTS =
  'module.exports = async ({ args }) => ({ body: { ok: true }, headers: args.headers });';

const MASK = {
  type: z.enum(['code', 'mask'], 'must be code or mask'),
  matcher: z.literal('regex', 'must be regex'),
  expression: z
    .string(PATTERN_ERROR)
    .min(1, PATTERN_ERROR)
    .max(MASK_EXPRESSION_LENGTH_MAX, PATTERN_ERROR)
    .refine((text) => isStorableText(text) && isPattern(text), PATTERN_ERROR),
  replacement: z
    .string(REPLACEMENT_ERROR)
    .max(MASK_REPLACEMENT_LENGTH_MAX, REPLACEMENT_ERROR)
    .refine(isStorableText, NOT_STORABLE),
};

/** The code of a transform in a request. @throws nothing: problems are added to the context. */
const codeOfGiven = (
  { type, code, matcher, expression, replacement = '*' }: z.output<typeof givenFields>,
  ctx: z.RefinementCtx,
): string => {
  const refuse = (path: string, message: string): never => {
    ctx.addIssue({ code: 'custom', path: [path], message });
    return z.NEVER;
  };
  if (type !== 'mask') {
    if (matcher !== undefined || expression !== undefined) return refuse('type', 'must be mask, or have code alone');
    return code ?? refuse('code', 'must be text: JavaScript that exports one function');
  }
  if (expression === undefined) return refuse('expression', PATTERN_ERROR);
  const made = codeOfMask({ expression, replacement });
  // Clients send records back.
  return code === undefined || code === made
    ? made
    : refuse('code', 'must be left out of a transform of the type mask');
};

const givenFields = z.object(
  {
    type: optional(MASK.type).meta({
      description:
        '`code`, or `mask`: replaces what `expression` matches in the body of a response by `replacement`. Left out: code.',
      example: 'code',
    }),
    code: optional(formulaFields.code).meta({
      description: 'The code: JavaScript that exports one function.',
      example: RESPONSE_CODE_IN_DOCUMENTS,
    }),
    matcher: optional(MASK.matcher).meta({ description: 'Of a mask: `regex`. Left out: regex.', example: 'regex' }),
    expression: optional(MASK.expression).meta({
      description: `Of a mask: a regular expression of JavaScript, of at most ${MASK_EXPRESSION_LENGTH_MAX} characters.`,
      example: '[0-9]{12,15}(?=[0-9]{4})',
    }),
    replacement: optional(MASK.replacement).meta({
      description: 'Of a mask: the text in place of each match. Left out: `*`.',
      example: '*',
    }),
  },
  'must be an object with code',
);

/** A transform in a request. */
const givenTransform = givenFields
  .transform(codeOfGiven)
  .meta({ id: 'ProxyTransformRequest', description: 'Code, or a built-in mask, that transforms messages of a proxy.' });

/** Only code: a request is not masked. */
const givenRequestTransform = z
  .object(
    {
      type: optional(z.literal('code', 'must be code: masks are for responses')).meta({
        description: '`code`, or left out.',
        example: 'code',
      }),
      code: formulaFields.code.meta({
        description: 'The code: JavaScript that exports one function.',
        example: exampleProxy.request_transform.code,
      }),
    },
    'must be an object with code',
  )
  .transform(({ code }) => code)
  .meta({ id: 'ProxyRequestTransformRequest', description: 'Code that transforms requests of a proxy.' });

const LIST_ERROR = 'must be a list of at most one transform: a proxy runs one in each direction';

/** The form of current clients of the earlier API. */
const listOf = <T extends z.ZodType>(transform: T) => z.array(transform, LIST_ERROR).max(1, LIST_ERROR);

const inList = (name: string) => ({ description: `\`${name}\` as a list of one. Not together with it.` });

/** The transform in one of its two forms. Undefined where both are left out; null where a patch removes it. */
const oneOf = (
  single: string | null | undefined,
  list: string[] | null | undefined,
  name: string,
  ctx: z.RefinementCtx,
): string | null | undefined => {
  if (list === undefined) return single;
  if (single !== undefined && single !== null && (list ?? []).length > 0)
    ctx.addIssue({ code: 'custom', path: [`${name}s`], message: `must not be there beside ${name}` });
  return list?.[0] ?? single ?? null;
};

/** `expressions` in one of its two forms. */
const expressionsOf = (
  expressions: 'on' | 'off' | undefined,
  disabled: boolean | undefined,
  ctx: z.RefinementCtx,
): 'on' | 'off' | undefined => {
  if (disabled === undefined) return expressions;
  const said = disabled ? 'off' : 'on';
  if (expressions !== undefined && expressions !== said)
    ctx.addIssue({ code: 'custom', path: ['disable_detokenization'], message: 'must say the same as expressions' });
  return said;
};

/** Used in versions and drafts. */
const proxyTransform = z
  .object(
    {
      code: formulaFields.code.meta({
        description: 'The code: JavaScript that exports one function.',
        example: RESPONSE_CODE_IN_DOCUMENTS,
      }),
    },
    'must be an object with code',
  )
  .meta({ id: 'ProxyTransform', description: 'Code that transforms requests or responses of a proxy.' });

/** Transform of a proxy in a response. */
const shownTransform = z
  .object({
    code: z.string().meta({ description: 'The code that runs.', example: RESPONSE_CODE_IN_DOCUMENTS }),
    type: z
      .string()
      .optional()
      .meta({
        description: '`mask`, where the code is a built-in mask.',
        'x-extensible-enum': ['mask'],
        example: 'mask',
      }),
    matcher: z.string().optional().meta({ description: 'How a mask finds what it replaces.', example: 'regex' }),
    expression: z
      .string()
      .optional()
      .meta({ description: 'The regular expression of a mask.', example: '[0-9]{12,15}(?=[0-9]{4})' }),
    replacement: z
      .string()
      .optional()
      .meta({ description: 'The text of a mask in place of each match.', example: '*' }),
  })
  .meta({ id: 'ShownProxyTransform', description: 'A transform of a proxy, with what a built-in mask is made of.' });

const pem = (description: string, example: string) =>
  z
    .string(`must be text in PEM of at most ${PEM_LENGTH_MAX} characters`)
    .max(PEM_LENGTH_MAX, `must have at most ${PEM_LENGTH_MAX} characters`)
    .meta({ description, example });

const givenCertificate = z
  .object(
    {
      certificate: pem(
        'The certificate in PEM, followed by the intermediate certificates. Responses show it.',
        CERTIFICATE_IN_DOCUMENTS,
      ),
      private_key: pem('The private key in PEM, not encrypted. No response shows it.', PRIVATE_EXAMPLE_API_KEY),
    },
    'must be an object with a certificate and its private_key',
  )
  .meta({ id: 'ClientCertificateWithKey', description: 'A certificate and its private key.' });

/** Used for creates and changes. */
const proxyBody = z
  .object(
    {
      name: nameSchema.meta({ description: 'The name of the proxy.', example: exampleProxy.name }),
      destination_url: z.string(urlError).max(DESTINATION_URL_LENGTH_MAX, urlError).meta({
        description:
          'The https URL that requests are forwarded to. The path and the query of a request are appended to it. It has the full name of a host and not an address, and no user, no fragment and no `svc-proxy-key`. Expressions in it are not evaluated.',
        format: 'uri',
        pattern: '^[Hh][Tt][Tt][Pp][Ss]://[^\\s#\\\\]+$',
        example: exampleProxy.destination_url,
      }),
      request_transform: optional(givenRequestTransform).meta({
        description:
          'Runs on each request after expressions are replaced, and returns what the proxy sends. Left out: none.',
      }),
      request_transforms: optional(listOf(givenRequestTransform)).meta(inList('request_transform')),
      response_transform: optional(givenTransform).meta({
        description:
          'Runs on each response of the destination, with any status, and returns the response of the proxy. Left out: none.',
      }),
      response_transforms: optional(listOf(givenTransform)).meta(inList('response_transform')),
      application: optional(applicationReference).meta({
        description:
          'The application whose permissions the transforms have. It is the caller too where a request has no API key. The caller that creates or changes the proxy must have all its permissions. Left out: none.',
      }),
      configuration: z
        .record(z.string(), z.any(), 'must be an object')
        .meta(configurationKeywords)
        .nullish()
        .transform((configuration) => (configuration ?? null) as Record<string, unknown> | null)
        .meta({
          description: `Values for the transforms by their names: text of at most ${CONFIGURATION_TEXT_LENGTH_MAX} characters, numbers and booleans. At most ${ELEMENTS_MAX}. A name has letters, digits, _ and -. Left out: null.`,
          example: exampleProxy.configuration,
        }),
      require_auth: optionalWith(z.boolean('must be true or false'), true).meta({
        description: 'Whether a request needs an API key in addition to the key of the proxy. Left out: true.',
        example: true,
      }),
      expressions: optional(z.enum(['on', 'off'], "must be 'on' or 'off'")).meta({
        description:
          'Whether `{{ }}` in requests are expressions. `off`: all of a request is data and is sent as it is, for proxies that take requests of other systems, such as webhooks. Left out: on.',
        example: 'on',
      }),
      disable_detokenization: optional(z.boolean('must be true or false')).meta({
        description: '`true` means the same as `expressions: off`.',
        example: false,
      }),
      timeout_seconds: optional(
        z.int(timeoutError).min(TIMEOUT_SECONDS.least, timeoutError).max(TIMEOUT_SECONDS.most, timeoutError),
      ).meta({
        description: `How long the destination has until the head of its response, in seconds, from the start of the request to it. The body has ${BODY_MS / 1000} seconds more. Left out: ${TIMEOUT_SECONDS.usual}.`,
        example: exampleProxy.timeout_seconds,
      }),
      echo_guard: optional(echoModeSchema).meta({
        description: `${ECHO_GUARD_TEXT} Left out: the setting of the tenant.`,
        example: 'mask',
      }),
      cvc: optional(codeRuleGiven).meta({
        description: 'When security codes that the proxy sends are deleted. Left out: at the end of their time.',
      }),
      amount: optional(amountRuleGiven).meta({
        description: `${AMOUNT_TEXT} Left out: values with an allowance do not pass.`,
      }),
      idempotency_header: optional(keyHeader).meta({
        description: `${KEY_HEADER_TEXT} Left out: none.`,
        example: KEY_HEADER_EXAMPLE,
      }),
      allowed_hosts: allowedHostsSchema.meta({
        description: `The hosts that the proxy may send to. ${HOSTS_IN_DOCUMENTS} One of them must cover the destination. Left out: not limited.`,
        example: exampleProxy.allowed_hosts,
      }),
      client_certificate: givenCertificate.nullish().meta({
        description:
          'The client certificate for destinations that require one (mutual TLS). Null: none. A change without it keeps it.',
      }),
      note: noteField,
    },
    'the body must be an object',
  )
  .transform(({ application, request_transforms, response_transforms, disable_detokenization, ...rest }, ctx) => ({
    ...rest,
    request_transform: oneOf(rest.request_transform, request_transforms, 'request_transform', ctx) ?? undefined,
    response_transform: oneOf(rest.response_transform, response_transforms, 'response_transform', ctx) ?? undefined,
    expressions: expressionsOf(rest.expressions, disable_detokenization, ctx) ?? ('on' as const),
    application_id: application?.id,
  }));

/** A merge patch. Null removes, so it is not absence. */
export const proxyPatch = z
  .object(
    {
      name: nameSchema.optional().meta({ description: 'The new name.', example: exampleProxy.name }),
      destination_url: z.string(urlError).max(DESTINATION_URL_LENGTH_MAX, urlError).optional().meta({
        description: 'The new https URL.',
        example: exampleProxy.destination_url,
      }),
      request_transform: givenRequestTransform.nullish().meta({
        description: 'The new transform of requests, as a whole. Null: none.',
      }),
      request_transforms: listOf(givenRequestTransform).nullish().meta(inList('request_transform')),
      response_transform: givenTransform.nullish().meta({
        description: 'The new transform of responses, as a whole. Null: none.',
      }),
      response_transforms: listOf(givenTransform).nullish().meta(inList('response_transform')),
      application: applicationReference.nullish().meta({ description: 'The new application. Null: none.' }),
      configuration: z.record(z.string(), z.any(), 'must be an object').meta(configurationKeywords).nullish().meta({
        description: 'Values to set. Null removes one of them; null in place of the object removes all.',
        example: exampleProxy.configuration,
      }),
      require_auth: z.boolean('must be true or false').optional().meta({
        description: 'Whether a request needs an API key in addition to the key of the proxy.',
        example: true,
      }),
      expressions: z
        .enum(['on', 'off'], "must be 'on' or 'off'")
        .optional()
        .meta({
          'x-extensible-enum': ['on', 'off'],
          description: 'Whether `{{ }}` in requests are expressions.',
          example: 'on',
        }),
      disable_detokenization: z.boolean('must be true or false').optional().meta({
        description: '`true` means the same as `expressions: off`.',
        example: false,
      }),
      timeout_seconds: z
        .int(timeoutError)
        .min(TIMEOUT_SECONDS.least, timeoutError)
        .max(TIMEOUT_SECONDS.most, timeoutError)
        .nullish()
        .meta({ description: 'The new timeout. Null: the usual one.', example: exampleProxy.timeout_seconds }),
      echo_guard: echoModeSchema.nullish().meta({
        description: `${ECHO_GUARD_TEXT} Null: the setting of the tenant.`,
        example: 'mask',
      }),
      cvc: codeRuleGiven.nullish().meta({
        description:
          'When security codes that the proxy sends are deleted, as a whole. Null: at the end of their time.',
      }),
      amount: amountRuleGiven.nullish().meta({
        description: `${AMOUNT_TEXT} As a whole. Null: values with an allowance do not pass.`,
      }),
      idempotency_header: keyHeader.nullish().meta({
        description: `${KEY_HEADER_TEXT} Null: none.`,
        example: KEY_HEADER_EXAMPLE,
      }),
      client_certificate: givenCertificate.nullish().meta({
        description: 'The new client certificate, as a whole. Null: none.',
      }),
      allowed_hosts: hostList.nullish().meta({
        description: 'The hosts that the proxy may send to, as a whole. Null: not limited.',
        example: exampleProxy.allowed_hosts,
      }),
      note: noteField,
    },
    'the body must be an object',
  )
  .transform(({ request_transforms, response_transforms, disable_detokenization, ...rest }, ctx) => ({
    ...rest,
    request_transform: oneOf(rest.request_transform, request_transforms, 'request_transform', ctx),
    response_transform: oneOf(rest.response_transform, response_transforms, 'response_transform', ctx),
    expressions: expressionsOf(rest.expressions, disable_detokenization, ctx),
  }))
  .meta({ id: 'ProxyPatch', description: 'A merge patch (RFC 7396). What is left out stays.' });

const transforms = {
  request_transform: optional(proxyTransform).meta({ description: 'The code for each request. Left out: none.' }),
  response_transform: optional(proxyTransform).meta({ description: 'The code for each response. Left out: none.' }),
};

export const proxyDraft = z.object(transforms, 'the body must be an object').meta({
  id: 'ProxyDraftRequest',
  description: 'Transforms to save without deploying them.',
});

/** The code in a version or draft. */
export const transformsShape = {
  request_transform: proxyTransform.optional().meta({ description: 'The code for each request. Left out: none.' }),
  response_transform: proxyTransform.optional().meta({ description: 'The code for each response. Left out: none.' }),
};

export const newProxy = proxyBody.meta({ id: 'CreateProxyRequest', description: 'A proxy to create.' });

export const proxyChange = proxyBody.meta({
  id: 'UpdateProxyRequest',
  description: 'The new state of the proxy, as a whole. Only a client certificate that is left out stays as it is.',
});

export const proxyRecord = z
  .object({
    id: uuid('The id of the proxy.', EXAMPLE_ID),
    tenant_id: uuid('The id of the tenant that owns the proxy.', TENANT_ID),
    key: z.string().optional().meta({
      description: 'The key of the proxy, for `SVC-PROXY-KEY`. Only callers with `proxy:read` get it.',
      format: 'password',
      example: exampleProxy.key,
    }),
    previous_key_ends_at: date('When the replaced key ends. Left out: no replaced key lives.').optional(),
    name: z.string().meta({ description: 'The name of the proxy.', example: exampleProxy.name }),
    destination_url: z
      .string()
      .meta({ description: 'The URL that requests are forwarded to.', example: exampleProxy.destination_url }),
    require_auth: z.boolean().meta({
      description: 'Whether a request needs an API key in addition to the key of the proxy.',
      example: exampleProxy.require_auth,
    }),
    expressions: z.string().meta({
      'x-extensible-enum': ['on', 'off'],
      description: 'Whether `{{ }}` in requests are expressions.',
      example: exampleProxy.expressions,
    }),
    timeout_seconds: z.number().meta({
      description: 'How long the destination has until the head of its response, in seconds.',
      example: exampleProxy.timeout_seconds,
    }),
    echo_guard: z
      .string()
      .optional()
      .meta({
        'x-extensible-enum': [...echoModes],
        description: `${ECHO_GUARD_TEXT} Left out: the setting of the tenant.`,
        example: 'mask',
      }),
    cvc: codeRuleShown.optional().meta({
      description: 'When security codes that the proxy sends are deleted. Left out: at the end of their time.',
    }),
    amount: amountRuleShown.optional().meta({
      description: `${AMOUNT_TEXT} Left out: values with an allowance do not pass.`,
    }),
    idempotency_header: z
      .string()
      .optional()
      .meta({ description: `${KEY_HEADER_TEXT} Left out: none.`, example: KEY_HEADER_EXAMPLE }),
    request_transform: proxyTransform.optional().meta({ description: 'The code that runs on each request.' }),
    response_transform: shownTransform.optional().meta({ description: 'The code that runs on each response.' }),
    application_id: uuid(
      'The id of the application whose permissions the transforms have. Left out: none.',
      APPLICATION_ID,
    ).optional(),
    configuration: z.record(z.string(), z.any()).nullable().meta({
      description: 'Values for the transforms: text, numbers and booleans. Null where the proxy has none.',
      example: exampleProxy.configuration,
    }),
    allowed_hosts: z
      .array(z.string().meta({ example: 'api.example.com' }))
      .optional()
      .meta({ description: 'The hosts that the proxy may send to. Left out: not limited.' }),
    client_certificate: z
      .object({
        certificate: z.string().meta({
          description: 'The certificate and its intermediate certificates in PEM.',
          example: CERTIFICATE_IN_DOCUMENTS,
        }),
        fingerprint_sha256: z.string().meta({
          description: 'The SHA-256 digest of the first certificate.',
          example: Array.from({ length: 32 }, () => 'A7').join(':'),
        }),
        expires_at: date('When the first certificate expires.'),
      })
      .meta({ id: 'ClientCertificate', description: 'A certificate without its key.' })
      .optional()
      .meta({ description: 'The client certificate that the proxy uses, without its private key. Left out: none.' }),
    ...history,
  })
  .meta({ id: 'Proxy', description: 'A fixed destination, with code that transforms requests and responses.' });

const graceError = `must be a whole number from 0 to ${GRACE_SECONDS_MAX}`;

export const keyRotation = z
  .object(
    {
      grace_seconds: optionalWith(z.int(graceError).min(0, graceError).max(GRACE_SECONDS_MAX, graceError), 0).meta({
        description: 'How long the replaced key lives on, in seconds. Left out: it ends at once.',
        example: 3600,
      }),
    },
    'the body must be an object',
  )
  .meta({ id: 'RotateProxyKeyRequest', description: 'When the replaced key ends.' });

export const proxyPage = pageSchema(proxyRecord, 'ProxyPage');

export const proxyParams = z.object({
  id: givenUuid.meta({ description: 'The id of a proxy.', example: EXAMPLE_ID }),
});

export const proxyQuery = z.object({
  ...pageQuery(),
  id: repeated(givenUuid, 'Only these proxies.', EXAMPLE_ID),
  name: nameQuery('Only proxies of this name.', 'Payments*'),
});

const { name, destination_url, require_auth, timeout_seconds, request_transform, configuration, allowed_hosts } =
  exampleProxy;
const exampleRequest = {
  name,
  destination_url,
  require_auth,
  timeout_seconds,
  request_transform,
  application: { id: APPLICATION_ID },
  configuration,
  allowed_hosts,
};
const summary = 'To a payment API, with its key added';

export const newProxyExamples: { request: Examples; response: Examples } = {
  request: { payments: { summary, value: exampleRequest } },
  response: { payments: { summary, value: exampleProxy } },
};

export const proxyExamples: { response: Examples } = { response: { payments: { summary, value: exampleProxy } } };

export const proxyChangeExamples: { request: Examples; response: Examples } = {
  request: { payments: { summary, value: exampleRequest } },
  response: { payments: { summary, value: { ...exampleProxy, ...modified } } },
};

const patch = { configuration: { API_KEY: 'other-key' } };

export const proxyPatchExamples: { request: Examples; response: Examples } = {
  request: { payments: { summary: 'Another key of the destination', value: patch } },
  response: {
    payments: { summary: 'Another key of the destination', value: { ...exampleProxy, ...patch, ...modified } },
  },
};

export const keyRotationExamples: { request: Examples; response: Examples } = {
  request: { payments: { summary: 'The replaced key lives for an hour', value: { grace_seconds: 3600 } } },
  response: {
    payments: {
      summary,
      value: {
        ...exampleProxy,
        key: 'ExampleExampleExampleExample0001',
        previous_key_ends_at: '2026-11-19T11:00:00.000Z',
        ...modified,
      },
    },
  },
};

export const proxyPageExamples: { response: Examples } = {
  response: { one: { summary: 'One proxy', value: { pagination: onlyPage(1), data: [exampleProxy] } } },
};
