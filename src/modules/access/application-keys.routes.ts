// Routes and schemas of /applications/{id}/keys.
import { z } from 'zod';
import {
  APPLICATION_ID,
  bodyFailures,
  commonFailures,
  created,
  date,
  EXAMPLE_API_KEY,
  type Examples,
  failures,
  givenUuid,
  history,
  modified,
  noContent,
  onlyPage,
  repeated,
  TENANT_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { optional } from '../../platform/base/optional.ts';
import { networksSchema } from '../../platform/base/ip-networks.ts';
import { parseDate } from '../../platform/json/dates.ts';
import { paginationSchema } from '../../platform/base/pagination.ts';
import { API_KEYS_MAX, changeKey, createKey, getKey, listKeys, revokeKey } from './application-keys.ts';
import { newApiKeyMeta } from './applications.schema.ts';
import { nameSchema } from './names.ts';
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { usesPrefix } from '../../platform/http/header-prefixes.ts';
import { workOf } from './authenticate.ts';
import type { AccessContext } from './context.ts';

const EXAMPLE_ID = 'ExampleExample00';
const EXPIRY = '2027-03-01T00:00:00.000Z';
const NETWORKS = ['192.0.2.0/24', '2001:db8:7::/48'];
const NAME = 'Checkout in Frankfurt';

const KEY_ID_TEXT = 'The public part of an API key: the sixteen characters after its prefix.';

const applicationKeysParams = z.object({
  id: givenUuid.meta({ description: 'The id of an application.', example: APPLICATION_ID }),
});

const applicationKeyParams = z.object({
  id: applicationKeysParams.shape.id,
  key_id: z.string().meta({ description: KEY_ID_TEXT, example: EXAMPLE_ID }),
});

const EXPIRY_ERROR = 'must be a time (RFC 3339)';

const applicationKeyBody = z
  .object(
    {
      name: optional(nameSchema).meta({ description: 'What the key is for. Left out: no name.', example: NAME }),
      expires_at: z
        .string(EXPIRY_ERROR)
        .meta({ format: 'date-time' })
        .nullish()
        .transform((text, ctx) => {
          if (text == null) return undefined;
          const at = parseDate(text);
          if (at) return at;
          ctx.addIssue({ code: 'custom', message: EXPIRY_ERROR });
          return z.NEVER;
        })
        .meta({ description: 'When the key ends. Left out: it does not.', example: EXPIRY }),
      allowed_addresses: networksSchema.meta({
        description:
          'The IP addresses and networks that may use the key, as the server sees its clients: behind a load balancer the operator must have set `TRUSTED_PROXIES`. Left out: all.',
        example: NETWORKS,
      }),
    },
    'the body must be an object',
  )
  .meta({ id: 'ApiKeyRequest', description: 'What an API key is called and limited by.' });

const applicationKeyRecord = z
  .object({
    id: z.string().meta({ description: KEY_ID_TEXT, example: EXAMPLE_ID }),
    tenant_id: uuid('The id of the tenant that owns the application.', TENANT_ID),
    application_id: uuid('The id of the application that the key belongs to.', APPLICATION_ID),
    name: z.string().optional().meta({ description: 'What the key is for.', example: NAME }),
    expires_at: date('When the key ends. Left out: it does not.', EXPIRY).optional(),
    allowed_addresses: z
      .array(z.string().meta({ example: '192.0.2.0/24' }))
      .optional()
      .meta({ description: 'The IP addresses and networks that may use the key. Left out: all.' }),
    last_used_at: date('When the key was used last, to the minute. Left out: not yet.').optional(),
    key: z.string().optional().meta(newApiKeyMeta),
    ...history,
  })
  .meta({ id: 'ApiKey', description: 'An API key of an application, without its secret.' });

const createdKeyRecord = applicationKeyRecord
  .extend({ key: z.string().meta(newApiKeyMeta) })
  .meta({ id: 'CreatedApiKey', description: 'A new API key of an application, with its secret.' });

/** For a new key, whose body may be left out. */
const newApplicationKeyBody = applicationKeyBody.nullish();

/** Key that an empty body asks for. */
const plainKey = applicationKeyBody.parse({});

const applicationKeyQuery = z.object({ id: repeated(z.string(), 'Only these keys.', EXAMPLE_ID) });

const applicationKeyList = z
  .object({
    pagination: paginationSchema,
    data: z.array(applicationKeyRecord).meta({ description: `The keys, newest first: ${API_KEYS_MAX} at most.` }),
  })
  .meta({ id: 'ApiKeyList', description: 'All API keys of an application, on one page.' });

const settings = { name: NAME, expires_at: EXPIRY, allowed_addresses: NETWORKS };
const shown = { id: EXAMPLE_ID, tenant_id: TENANT_ID, application_id: APPLICATION_ID, ...settings };
const summary = 'A key of one place, until March';

const newKeyExamples: { request: Examples; response: Examples } = {
  request: { place: { summary, value: settings } },
  response: { place: { summary, value: { ...shown, key: EXAMPLE_API_KEY, ...created } } },
};

const keyExamples: { response: Examples } = {
  response: { place: { summary, value: { ...shown, ...created } } },
};

const keyChangeExamples: { request: Examples; response: Examples } = {
  request: { place: { summary, value: settings } },
  response: { place: { summary, value: { ...shown, ...created, ...modified } } },
};

const keyListExamples: { response: Examples } = {
  response: {
    one: {
      summary: 'One key',
      value: { pagination: { ...onlyPage(1), page_size: API_KEYS_MAX }, data: [{ ...shown, ...created }] },
    },
  },
};

const ALL = '/applications/:id/keys';
const ONE = `${ALL}/:key_id`;
const tags = ['Applications'];
const NEEDS_ALL = 'The caller must have all permissions of the application.';

export const applicationKeysRoutes = (app: App, ctx: AccessContext): void => {
  app.post(
    ALL,
    {
      config: { permission: 'application:update', creates: ALL, idempotency: 'brief' },
      schema: {
        operationId: 'createApiKey',
        summary: 'Create one more API key',
        description: `Creates an API key of an application. Its other keys go on to work, so that clients can change to the new key one by one. Only this response has the key. An application has ${API_KEYS_MAX} keys at most, and none gets a further one where its tenant has too many. ${NEEDS_ALL}\n\nPermission: \`application:update\`.`,
        tags,
        params: applicationKeysParams,
        body: newApplicationKeyBody,
        isBodyOptional: true,
        answer: 'The key.',
        examples: newKeyExamples,
        response: { 201: createdKeyRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) =>
      answer(reply, await createKey(ctx, workOf(request), request.params.id, request.body ?? plainKey)),
  );

  app.get(
    ALL,
    {
      config: { permission: 'application:read' },
      schema: {
        operationId: 'listApiKeys',
        summary: 'List the API keys of an application',
        description:
          'Lists the API keys of an application, newest first, without their secrets. A client that uses a further prefix of the headers (`API_HEADER_PREFIXES`) gets the keys as a plain array.\n\nPermission: `application:read`.',
        tags,
        params: applicationKeysParams,
        querystring: applicationKeyQuery,
        answer: 'The keys.',
        examples: keyListExamples,
        response: { 200: applicationKeyList, ...failures(...commonFailures, 404) },
      },
    },
    async (request, reply) => {
      const { params, query } = request;
      const page = await listKeys(ctx, workOf(request), { id: params.id, key_ids: query.id });
      // The SDKs of that prefix expect no page.
      return answer(reply, usesPrefix(request) ? page.data : page);
    },
  );

  app.get(
    ONE,
    {
      config: { permission: 'application:read' },
      schema: {
        operationId: 'getApiKey',
        summary: 'Read an API key',
        description: 'Reads an API key of an application, without its secret.\n\nPermission: `application:read`.',
        tags,
        params: applicationKeyParams,
        answer: 'The key.',
        examples: keyExamples,
        response: { 200: applicationKeyRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getKey(ctx, workOf(request), request.params),
  );

  app.put(
    ONE,
    {
      config: { permission: 'application:update' },
      schema: {
        operationId: 'updateApiKey',
        summary: 'Change an API key',
        description: `Replaces name, end and addresses of an API key, at once and in all processes of the vault. ${NEEDS_ALL}\n\nPermission: \`application:update\`.`,
        tags,
        params: applicationKeyParams,
        body: applicationKeyBody,
        answer: 'The changed key.',
        examples: keyChangeExamples,
        response: { 200: applicationKeyRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await changeKey(ctx, workOf(request), request.params, request.body)),
  );

  app.delete(
    ONE,
    {
      config: { permission: 'application:update' },
      schema: {
        operationId: 'deleteApiKey',
        summary: 'Revoke an API key',
        description:
          'Ends one API key of an application, at once and in all processes of the vault. The other keys go on to work, and so do sessions for browsers that the application has created.\n\nPermission: `application:update`.',
        tags,
        params: applicationKeyParams,
        answer: 'The key has ended.',
        response: { 204: noContent, ...failures(...commonFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await revokeKey(ctx, workOf(request), request.params)),
  );
};
