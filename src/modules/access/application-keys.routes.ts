// Routes of /applications/{id}/keys.
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { usesPrefix } from '../../platform/http/header-prefixes.ts';
import { bodyFailures, commonFailures, failures, noContent } from '../../platform/http/schemas.ts';
import { API_KEYS_MAX, changeKey, createKey, getKey, listKeys, revokeKey } from './application-keys.ts';
import {
  applicationKeyBody,
  applicationKeyList,
  applicationKeyQuery,
  applicationKeyParams,
  applicationKeyRecord,
  applicationKeysParams,
  keyChangeExamples,
  keyExamples,
  keyListExamples,
  newApplicationKeyBody,
  newKeyExamples,
  plainKey,
} from './application-keys.schema.ts';
import { workOf } from './authenticate.ts';
import type { AccessContext } from './context.ts';

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
        response: { 201: applicationKeyRecord, ...failures(...bodyFailures, 404) },
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
