// Routes and schemas of /tokens: create, list, read, change, delete and search tokens.
import { z } from 'zod';
import { disclosures, operations, outcomes } from '../../platform/db/audit-record.ts';
import {
  APPLICATION_ID,
  bodyFailures,
  boundary,
  CARD_TOKEN_ID,
  commonFailures,
  CREATED_AT,
  date,
  type Examples,
  failures,
  noContent,
  PROXY_ID,
  REACTOR_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { actorType, reasonShown } from '../logs/logs.schema.ts';
import { CARD_TOKENS_MAX, FOLDED_MAX, getTimeline } from './timeline.ts';
import type { TokensContext } from './context.ts';
import { answer, answerInSlices } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { workOf } from '../access/authenticate.ts';
import { pageOf } from '../../platform/base/pagination.ts';
import { patchMediaTypes, requirePatchType } from '../../platform/http/problems.ts';
import { metadataFilter, metadataOf, tokenListQuery, tokenPage, tokenRecord } from './token-record.ts';
import { createTokenBody } from './token-request.schema.ts';
import { changeToken, deleteToken } from './change-token.ts';
import { createToken } from './create-tokens.ts';
import { deleteBySearch, DELETED_MAX } from './delete-by-search.ts';
import { createFromIntent, namesIntent } from './token-intents.ts';
import { getToken, listTokens, searchTokens } from './read-tokens.ts';
import {
  createTokenExamples,
  deleteBySearchBody,
  deleteBySearchExamples,
  deletedTokens,
  searchBody,
  searchExamples,
  tokenExamples,
  tokenIdParams,
  tokenListExamples,
  tokenPatch,
  tokenPatchExamples,
} from './tokens.schema.ts';

const timelineQuery = z.object({
  start_date: boundary('Only entries from this time on.'),
  end_date: boundary('Only entries from before this time.'),
});

const counts = {
  count: z.int().meta({ description: 'How many entries.', example: 5 }),
  first_at: date('When the first one was.'),
  last_at: date('When the last one was.', '2026-11-24T09:12:00.000Z'),
};

const closed = (values: readonly string[], description: string, example: string) =>
  z.string().meta({ description, 'x-extensible-enum': [...values], example });

const name = (what: string, example: string) =>
  z
    .string()
    .optional()
    .meta({ description: `The name that ${what} has now.`, example });

const timelineEntry = z
  .object({
    operation: closed(operations, 'The operation of the entries.', 'read'),
    message: z.string().meta({ description: 'What happened, in words.', example: 'Token used' }),
    outcome: closed(outcomes, 'How it ended.', 'success'),
    disclosure: closed(disclosures, 'How much of the value left the vault.', 'used'),
    actor_type: actorType,
    actor_id: uuid('The id of the application or user that did it.', APPLICATION_ID).optional(),
    actor_name: name('the application or user', 'Checkout server'),
    application_id: uuid('The id of the application that asked.', APPLICATION_ID).optional(),
    code_application_id: uuid('The id of the application whose rights code had.', APPLICATION_ID).optional(),
    reason: reasonShown,
    reactor_id: uuid('The id of the reactor whose code got the value or asked.', REACTOR_ID).optional(),
    reactor_name: name('the reactor', 'Shop digits'),
    proxy_id: uuid('The id of the stored proxy.', PROXY_ID).optional(),
    proxy_name: name('the proxy', 'Payments'),
    destination_host: z.string().optional().meta({
      description: 'The host that the value was sent to, with the port where it is not 443.',
      example: 'api.example.com',
    }),
    is_list: z
      .literal(true)
      .optional()
      .meta({ description: 'True for lists and searches, which had other tokens too.', example: true }),
    ...counts,
  })
  .meta({ id: 'TimelineEntry', description: 'Equal entries of the log, as one.' });

const timelineDestination = z
  .object({
    destination_host: z
      .string()
      .meta({ description: 'The host, with the port where it is not 443.', example: 'api.example.com' }),
    ...counts,
    failed: z
      .int()
      .meta({ description: 'How many of them failed, before or after the host had the value.', example: 0 }),
  })
  .meta({ id: 'TimelineDestination', description: 'A host to which the proxy sent the value.' });

const more = (what: string) =>
  z
    .literal(true)
    .optional()
    .meta({ description: `True where there are more ${what}.`, example: true });

const timelineRecord = z
  .object({
    token_ids: z.array(z.string()).meta({
      description: `The tokens of the card that the caller may read, newest first: tokens of one fingerprint. At most ${CARD_TOKENS_MAX}, and always the one that was asked for.`,
      example: [CARD_TOKEN_ID],
    }),
    has_more_tokens: more('tokens'),
    count: z.int().meta({ description: 'How many entries of the log are about these tokens.', example: 5 }),
    first_at: date('When the first of them was.').optional(),
    last_at: date('When the last of them was.', '2026-11-24T09:12:00.000Z').optional(),
    entries: z.array(timelineEntry).meta({
      description: `The entries, equal ones as one, the last ones first. At most ${FOLDED_MAX}.`,
    }),
    has_more_entries: more('entries'),
    destinations: z.array(timelineDestination).meta({
      description: `The hosts to which the proxy sent the value, the last ones first. At most ${FOLDED_MAX}.`,
    }),
    has_more_destinations: more('destinations'),
    since: date(
      'All of the above is about entries from this time on, because the card has many. Ask with it as `end_date` for earlier ones. Left out where all entries of the interval were read.',
    ).optional(),
  })
  .meta({ id: 'TokenTimeline', description: 'What happened to a card, by the log.' });

const times = { count: 5, first_at: CREATED_AT, last_at: '2026-11-24T09:12:00.000Z' };

const timelineExamples: { response: Examples } = {
  response: {
    charged: {
      summary: 'A card that was charged',
      value: {
        token_ids: [CARD_TOKEN_ID],
        ...times,
        entries: [
          {
            operation: 'use',
            message: 'Token used',
            outcome: 'success',
            disclosure: 'used',
            actor_type: 'application',
            actor_id: APPLICATION_ID,
            actor_name: 'Checkout server',
            application_id: APPLICATION_ID,
            destination_host: 'api.example.com',
            ...times,
          },
        ],
        destinations: [{ destination_host: 'api.example.com', failed: 0, ...times }],
      },
    },
  },
};

export const tokensRoutes = (app: App, ctx: TokensContext): void => {
  app.post(
    '/tokens',
    {
      config: { permission: 'token:create', creates: '/tokens', servesBrowsers: true },
      schema: {
        operationId: 'createToken',
        summary: 'Create a token',
        description:
          'Creates one token. With `token_intent_id` in place of `data` it creates a token of the data of that intent, without its security code, and ends the intent; `type` is that of the intent, and the container too unless `containers` names another. The response never shows more than the masked value. It has a fingerprint only for callers with `token:read` on the container.\n\nPermission: `token:create` on the destination container.',
        tags: ['Tokens'],
        body: createTokenBody,
        answer: 'The token.',
        examples: createTokenExamples,
        response: { 201: tokenRecord, ...failures(...bodyFailures) },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const work = workOf(request);
      const creating = namesIntent(body)
        ? createFromIntent(ctx, work, body)
        : createToken(ctx, work, { request: body });
      return answer(reply, await creating);
    },
  );

  app.get(
    '/tokens',
    {
      config: { permission: 'token:read' },
      schema: {
        operationId: 'listTokens',
        summary: 'List tokens',
        description: `Lists the tokens that the caller may read, newest first. A token must match all filters. ${metadataFilter} The reads are logged before the response is sent.\n\nPermission: \`token:read\`.`,
        tags: ['Tokens'],
        querystring: tokenListQuery,
        answer: 'A page of tokens.',
        examples: tokenListExamples,
        response: { 200: tokenPage, ...failures(...commonFailures, 413) },
      },
    },
    async (request, reply) => {
      const { query } = request;
      const filter = { id: query.id, type: query.type, metadata: metadataOf(query) };
      return answerInSlices(ctx, reply, await listTokens(ctx, workOf(request), { filter, page: pageOf(query) }));
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
          'Finds tokens by a query: `field:value`, `field:"a phrase"`, `AND`, `OR`, `NOT` (or `!`, `-`), parentheses, and ranges of dates such as `created_at:[2026-01-01 TO *]`, with braces to exclude an end of the range. Fields: `id`, `type`, `data` (by the search indexes of a token), `fingerprint`, `last4`, `brand` and `expires` (such as `2030-12`; by what the mask of a token shows), `container` (with `*` at its end for all containers with this prefix), `metadata.KEY` (other keys than letters, digits, `_`, `.` and `-` in quotation marks: `metadata."order id"`), `created_by`, `created_at`, `modified_by`, `modified_at`. `data` and `metadata` match whole values; upper and lower case are the same. `data` and `fingerprint` match only tokens whose value the caller may see, and each of them counts as a token for `daily_reveals`, also where nothing is found. `last4`, `brand` and `expires` match only tokens whose mask the caller sees by a search and by a read. The newest tokens come first.\n\nPermission: `token:search`.',
        tags: ['Tokens'],
        body: searchBody,
        answer: 'A page of the tokens that match.',
        examples: searchExamples,
        response: { 200: tokenPage, ...failures(...commonFailures, 413, 415) },
      },
    },
    async (request, reply) => {
      const { query, ...page } = request.body;
      return answerInSlices(ctx, reply, await searchTokens(ctx, workOf(request), { query, page: pageOf(page) }));
    },
  );

  app.post(
    '/tokens/delete-by-search',
    {
      config: { permission: 'token:delete' },
      schema: {
        operationId: 'deleteTokensBySearch',
        summary: 'Delete the tokens that a query finds',
        description: `Deletes all tokens that the query finds among those that the caller may search and delete, with their security codes and links, or none: if they are not as many as \`expected_count\`, the response is a 409 that says how many there are. With \`unchanged_since\`, also if one of them was created or changed since then. At most ${DELETED_MAX} tokens. The log has a row for each token.\n\nPermission: \`token:delete\`, and \`token:search\` on the same containers.`,
        tags: ['Tokens'],
        alsoNeeds: ['token:search'],
        body: deleteBySearchBody,
        answer: 'The tokens are deleted.',
        examples: deleteBySearchExamples,
        response: { 200: deletedTokens, ...failures(...bodyFailures) },
      },
    },
    async (request, reply) => answer(reply, await deleteBySearch(ctx, workOf(request), request.body)),
  );

  app.get(
    '/tokens/:id',
    {
      config: { permission: 'token:read' },
      schema: {
        operationId: 'getToken',
        summary: 'Read a token',
        description:
          'Reads one token, with as much of its data as the caller may see. The read is logged before the response is sent.\n\nPermission: `token:read` on the container of the token.',
        tags: ['Tokens'],
        params: tokenIdParams,
        answer: 'The token, as far as the caller may see it.',
        examples: tokenExamples,
        response: { 200: tokenRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getToken(ctx, workOf(request), request.params.id),
  );

  app.get(
    '/tokens/:id/timeline',
    {
      config: { permission: 'token:read' },
      schema: {
        operationId: 'getTokenTimeline',
        summary: 'Get the timeline of a token',
        description:
          'Tells what happened to a card: the entries of the log about this token, and about other tokens of its fingerprint that the caller may read and whose fingerprint it sees. Equal entries are one, with a count. No value is shown. The reading is logged as one of the log.\n\nPermission: `token:read` on the container of the token, and `log:read`.',
        tags: ['Tokens'],
        alsoNeeds: ['log:read'],
        params: tokenIdParams,
        querystring: timelineQuery,
        answer: 'The timeline.',
        examples: timelineExamples,
        response: { 200: timelineRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => {
      const { start_date, end_date } = request.query;
      return getTimeline(ctx, workOf(request), request.params.id, { start_date, end_date });
    },
  );

  app.patch(
    '/tokens/:id',
    {
      config: { permission: 'token:update' },
      schema: {
        operationId: 'updateToken',
        summary: 'Change a token',
        description:
          'Changes a token by a JSON merge patch (RFC 7396), sent as `application/merge-patch+json` or `application/json`. `data`, `mask` and `metadata` are merged, other attributes are replaced, and null removes. `type` and `id` cannot change. Mask, fingerprint, search indexes and deduplication are evaluated again. A card with a new number loses its security code unless the patch has one.\n\nA change of `mask`, `fingerprint_expression` or `search_indexes`, or of a part of an object in a generic token, needs permission to see the value. A change after which the caller could see or use more of the token than before is a 403.\n\nPermission: `token:update` on the container of the token, and on the container it moves to.',
        tags: ['Tokens'],
        params: tokenIdParams,
        consumes: [...patchMediaTypes],
        body: tokenPatch,
        answer: 'The changed token.',
        examples: tokenPatchExamples,
        response: { 200: tokenRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => {
      requirePatchType(request);
      return answer(reply, await changeToken(ctx, workOf(request), request.params.id, request.body));
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
          'Deletes a token, with its security code and its links to other tokens.\n\nPermission: `token:delete` on the container of the token.',
        tags: ['Tokens'],
        params: tokenIdParams,
        answer: 'The token is deleted.',
        response: { 204: noContent, ...failures(...commonFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await deleteToken(ctx, workOf(request), request.params.id)),
  );
};
