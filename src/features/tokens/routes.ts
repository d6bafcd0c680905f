// /tokens: made, listed, read, changed, ended, searched.
import type { Context } from '../../context.ts';
import { unsupportedMediaType } from '../../errors.ts';
import { answer } from '../../http/answers.ts';
import type { App } from '../../http/app-type.ts';
import { callerOf } from '../../http/authenticate.ts';
import { pageOf } from '../../http/pagination.ts';
import { patchMediaTypes } from '../../http/problems.ts';
import { bodyFailures, commonFailures, failures, noContent } from '../../http/schemas.ts';
import { metadataFilter, metadataOf, tokenListQuery, tokenPage, tokenRecord } from '../../http/token-record.ts';
import { createTokenBody } from '../../http/token-request-schema.ts';
import { changeToken, deleteToken } from '../../vault/change-token.ts';
import { createToken } from '../../vault/create-tokens.ts';
import { getToken, listTokens, searchTokens } from '../../vault/read-tokens.ts';
import {
  createTokenExamples,
  searchBody,
  searchExamples,
  tokenExamples,
  tokenIdParams,
  tokenListExamples,
  tokenPatch,
  tokenPatchExamples,
} from './schema.ts';

export const tokensRoutes = (app: App, ctx: Context): void => {
  app.post(
    '/tokens',
    {
      config: { permission: 'token:create', creates: '/tokens' },
      schema: {
        operationId: 'createToken',
        summary: 'Create a token',
        description:
          'Makes one token. Its answer never shows more than the masked value.\n\nPermission: `token:create` on the destination container.',
        tags: ['Tokens'],
        body: createTokenBody,
        answer: 'The token.',
        examples: createTokenExamples,
        response: { 201: tokenRecord, ...failures(...bodyFailures) },
      },
    },
    async (request, reply) => answer(reply, await createToken(ctx, callerOf(request), { request: request.body })),
  );

  app.get(
    '/tokens',
    {
      config: { permission: 'token:read' },
      schema: {
        operationId: 'listTokens',
        summary: 'List tokens',
        description: `Lists the tokens that the caller may read, newest first. Filters combine: a token meets all of them. ${metadataFilter} What is shown is in the log before the answer leaves.\n\nPermission: \`token:read\`.`,
        tags: ['Tokens'],
        querystring: tokenListQuery,
        answer: 'A page of tokens.',
        examples: tokenListExamples,
        response: { 200: tokenPage, ...failures(...commonFailures, 413) },
      },
    },
    async (request) => {
      const { query } = request;
      const filter = { id: query.id, type: query.type, metadata: metadataOf(query) };
      return listTokens(ctx, callerOf(request), { filter, page: pageOf(query) });
    },
  );

  app.post(
    '/tokens/search',
    {
      config: { permission: 'token:search', idempotency: 'none' },
      schema: {
        operationId: 'searchTokens',
        summary: 'Search tokens',
        description:
          'Finds tokens by a query: `field:value`, `field:"a phrase"`, `AND`, `OR`, `NOT` (or `!`, `-`), parentheses, and ranges of dates such as `created_at:[2026-01-01 TO *]`, with braces for an end that is left out. Fields: `id`, `type`, `data` (by the search indexes of a token), `fingerprint`, `container` (with `*` at its end for all that begins so), `metadata.KEY`, `created_by`, `created_at`, `modified_by`, `modified_at`. `data` and `metadata` match whole values without regard to case. Newest first.\n\nPermission: `token:search`.',
        tags: ['Tokens'],
        body: searchBody,
        answer: 'A page of what was found.',
        examples: searchExamples,
        response: { 200: tokenPage, ...failures(...commonFailures, 413, 415) },
      },
    },
    async (request) => {
      const { query, ...page } = request.body;
      return searchTokens(ctx, callerOf(request), { query, page: pageOf(page) });
    },
  );

  app.get(
    '/tokens/:id',
    {
      config: { permission: 'token:read' },
      schema: {
        operationId: 'getToken',
        summary: 'Read a token',
        description:
          'Reads one token. Its data is masked, or revealed by an access rule; the read is in the log before the answer leaves.\n\nPermission: `token:read` on the container of the token.',
        tags: ['Tokens'],
        params: tokenIdParams,
        answer: 'The token, as far as the caller may see it.',
        examples: tokenExamples,
        response: { 200: tokenRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getToken(ctx, callerOf(request), request.params.id),
  );

  app.patch(
    '/tokens/:id',
    {
      config: { permission: 'token:update' },
      schema: {
        operationId: 'updateToken',
        summary: 'Change a token',
        description:
          'Changes a token by a JSON merge patch (RFC 7396), sent as `application/merge-patch+json` or `application/json`. `data`, `mask` and `metadata` are merged, other attributes replaced; null takes away. `type` and `id` stay. By another `mask`, `fingerprint_expression` or `search_indexes` the data could be read: to choose one takes `token:use`, or a rule that reveals, beside the permission. Mask, fingerprint, search indexes and deduplication are evaluated again. A card that gets another number loses its security code unless the patch brings one.\n\nPermission: `token:update` on the container of the token, and on the one it goes to.',
        tags: ['Tokens'],
        params: tokenIdParams,
        consumes: [...patchMediaTypes],
        body: tokenPatch,
        answer: 'The token as it is now.',
        examples: tokenPatchExamples,
        response: { 200: tokenRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => {
      const type = request.headers['content-type'] ?? '';
      if (!patchMediaTypes.includes(type.split(';', 1)[0]?.trim().toLowerCase() ?? ''))
        throw unsupportedMediaType(`The body must be ${patchMediaTypes.join(' or ')}.`);
      return answer(reply, await changeToken(ctx, callerOf(request), request.params.id, request.body));
    },
  );

  app.delete(
    '/tokens/:id',
    {
      config: { permission: 'token:delete' },
      schema: {
        operationId: 'deleteToken',
        summary: 'Delete a token',
        description:
          'Ends a token, with its security code and its links to other tokens.\n\nPermission: `token:delete` on the container of the token.',
        tags: ['Tokens'],
        params: tokenIdParams,
        answer: 'The token is gone.',
        response: { 204: noContent, ...failures(...commonFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await deleteToken(ctx, callerOf(request), request.params.id)),
  );
};
