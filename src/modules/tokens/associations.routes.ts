// Routes and schemas of the links between a parent token and its children, which are created, deleted and listed here.
import { z } from 'zod';
import {
  bodyFailures,
  commonFailures,
  type Examples,
  failures,
  noContent,
  onlyPage,
} from '../../platform/http/schemas.ts';
import { metadataFilter, metadataOf, tokenIdParam, tokenListQuery, tokenPage, tokenRecord } from './token-record.ts';
import { cardToken, createTokenBody, GENERIC_TOKEN_ID } from './token-request.schema.ts';
import type { TokensContext } from './context.ts';
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { workOf } from '../access/authenticate.ts';
import { type Page, pageOf, type PageRequest } from '../../platform/base/pagination.ts';
import { createToken } from './create-tokens.ts';
import { insertLink, removeLink } from './rows/token-transactions.ts';
import type { Work } from '../access/work.ts';
import { getTransform } from '../access/rules.ts';
import { linkLogRow, TOKEN_ASSOCIATED, TOKEN_DISSOCIATED } from '../../platform/db/audit-record.ts';
import { alreadyExists, AppError, invalidField, notFound } from '../../platform/base/errors.ts';
import { getTokenRow, listTokens, type TokenFilter } from './read-tokens.ts';
import type { TokenRecord } from './tokens.ts';

const parent_id = tokenIdParam.meta({ description: 'The id of the parent.', example: GENERIC_TOKEN_ID });

const parentParams = z.object({ parent_id });

const associationParams = z.object({
  parent_id,
  child_id: tokenIdParam.meta({ description: 'The id of the child.', example: cardToken.id }),
});

const childExamples: { request: Examples; response: Examples } = {
  request: {
    card: {
      summary: 'A card of a customer',
      value: {
        type: 'card',
        data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 },
        metadata: cardToken.metadata,
      },
    },
  },
  response: { card: { summary: 'A card of a customer', value: cardToken } },
};

const childrenExamples: { response: Examples } = {
  response: { page: { summary: 'A page', value: { pagination: onlyPage(1), data: [cardToken] } } },
};

const tags = ['Token associations'];

export const associationsRoutes = (app: App, ctx: TokensContext): void => {
  app.post(
    '/tokens/:parent_id/children/:child_id',
    {
      config: { permission: 'token:read' },
      schema: {
        operationId: 'createTokenAssociation',
        summary: 'Link a child to a parent',
        description:
          'Links two tokens, from a parent to a child. For a link in both directions create two, the second with the ids swapped.\n\nPermission: `token:read` on both tokens.',
        tags,
        params: associationParams,
        answer: 'The tokens are linked.',
        response: { 204: noContent, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await associateTokens(ctx, workOf(request), request.params)),
  );

  app.delete(
    '/tokens/:parent_id/children/:child_id',
    {
      config: { permission: 'token:delete' },
      schema: {
        operationId: 'deleteTokenAssociation',
        summary: 'Delete the link to a child',
        description:
          'Deletes the link from a parent to a child. The tokens stay.\n\nPermission: `token:delete` on both tokens.',
        tags,
        params: associationParams,
        answer: 'The link is deleted.',
        response: { 204: noContent, ...failures(...commonFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await dissociateTokens(ctx, workOf(request), request.params)),
  );

  app.post(
    '/tokens/:parent_id/children',
    {
      config: { permission: 'token:create', creates: '/tokens' },
      schema: {
        operationId: 'createChildToken',
        summary: 'Create a child token',
        description:
          'Creates a token and links it to a parent: both or neither.\n\nPermission: `token:create` on the destination container, `token:read` on the parent.',
        tags,
        params: parentParams,
        body: createTokenBody,
        answer: 'The child token.',
        alsoNeeds: ['token:read'],
        examples: childExamples,
        response: { 201: tokenRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => {
      const input = { request: request.body, parent_id: request.params.parent_id };
      return answer(reply, await createToken(ctx, workOf(request), input));
    },
  );

  app.get(
    '/tokens/:parent_id/children',
    {
      config: { permission: 'token:read' },
      schema: {
        operationId: 'listChildTokens',
        summary: 'List child tokens',
        description: `Lists the children of a token that the caller may read, newest first. The filters are those of \`GET /tokens\`. ${metadataFilter}\n\nPermission: \`token:read\` on the parent and on each child.`,
        tags,
        params: parentParams,
        querystring: tokenListQuery,
        answer: 'A page of child tokens.',
        examples: childrenExamples,
        response: { 200: tokenPage, ...failures(...commonFailures, 404, 413) },
      },
    },
    async (request) => {
      const { query, params } = request;
      const filter = { id: query.id, type: query.type, metadata: metadataOf(query) };
      return listChildren(ctx, workOf(request), { parent_id: params.parent_id, filter, page: pageOf(query) });
    },
  );
};

// Creates, deletes and lists associations, which are links from a parent token to its children.

/**
 * Links a child to a parent.
 * @throws invalidInput for a token that would be its own child; notFound; forbidden without token:read on both;
 * conflict if the link exists.
 */
const associateTokens = async (
  ctx: TokensContext,
  work: Work,
  { parent_id, child_id }: { parent_id: string; child_id: string },
): Promise<void> => {
  if (parent_id === child_id) throw invalidField('child_id', 'must not be the parent itself');
  const parent = await getTokenRow(ctx, work, parent_id);
  const child = await getTokenRow(ctx, work, child_id);
  for (const row of [parent, child]) getTransform(work, 'token:read', row);
  const log = linkLogRow(ctx, work, parent, TOKEN_ASSOCIATED);
  const link = { parent_id, child_id, created_at: log.created_at, created_by: work.actor_id };
  try {
    await work.transaction(async (tx) => {
      await insertLink(tx, link);
      tx.log(log);
    });
  } catch (error) {
    if (error instanceof AppError && error.code === 'conflict' && error.cause !== undefined)
      throw alreadyExists('These tokens are associated already.', error);
    throw error;
  }
};

/** Deletes a link. @throws notFound for a missing token or link; forbidden without token:delete on both. */
const dissociateTokens = async (
  ctx: TokensContext,
  work: Work,
  { parent_id, child_id }: { parent_id: string; child_id: string },
): Promise<void> => {
  const parent = await getTokenRow(ctx, work, parent_id);
  const child = await getTokenRow(ctx, work, child_id);
  for (const row of [parent, child]) getTransform(work, 'token:delete', row);
  const log = linkLogRow(ctx, work, parent, TOKEN_DISSOCIATED);
  await work.transaction(async (tx) => {
    if (!(await removeLink(tx, parent_id, child_id))) throw notFound('association');
    tx.log(log);
  });
};

/** A page of a parent's children, newest first. @throws notFound; forbidden; unavailable. */
const listChildren = async (
  ctx: TokensContext,
  work: Work,
  input: { parent_id: string; filter: TokenFilter; page: PageRequest },
): Promise<Page<TokenRecord>> => {
  getTransform(work, 'token:read', await getTokenRow(ctx, work, input.parent_id));
  return listTokens(ctx, work, input);
};
