// Routes of /v2/tokens: the lists of tokens by the paths that current SDKs of the earlier API know. They page by a cursor only.
import { answerInSlices } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { commonFailures, failures } from '../../platform/http/schemas.ts';
import { pageOf } from '../../platform/base/pagination.ts';
import { workOf } from '../access/authenticate.ts';
import type { TokensContext } from './context.ts';
import { listTokens, searchTokens } from './read-tokens.ts';
import { cursorTokenListQuery, metadataFilter, metadataOf, tokenPage } from './token-record.ts';
import { cursorSearchBody, cursorSearchExamples, tokenListExamples } from './tokens.schema.ts';

export const tokensV2Routes = (app: App, ctx: TokensContext): void => {
  app.get(
    '/v2/tokens',
    {
      config: { permission: 'token:read' },
      schema: {
        operationId: 'listTokensByCursor',
        summary: 'List tokens by a cursor',
        description: `Lists the tokens that the caller may read, newest first, as \`GET /tokens\` does. A token must match all filters. ${metadataFilter} The filter \`fingerprint\` matches only tokens whose value the caller may see, and counts as a token for \`daily_reveals\`, also where nothing is found.\n\nPermission: \`token:read\`.`,
        tags: ['Tokens'],
        querystring: cursorTokenListQuery,
        answer: 'A page of tokens.',
        examples: tokenListExamples,
        response: { 200: tokenPage, ...failures(...commonFailures, 413) },
      },
    },
    async (request, reply) => {
      const { id, type, container, fingerprint, ...query } = request.query;
      const filter = { id, type, container, fingerprint, metadata: metadataOf(query) };
      return answerInSlices(ctx, reply, await listTokens(ctx, workOf(request), { filter, page: pageOf(query) }));
    },
  );

  app.post(
    '/v2/tokens/search',
    {
      config: { permission: 'token:search', idempotency: 'none' },
      schema: {
        operationId: 'searchTokensByCursor',
        summary: 'Search tokens by a cursor',
        description:
          'Finds tokens by a query, as `POST /tokens/search` does. The newest tokens come first.\n\nPermission: `token:search`.',
        tags: ['Tokens'],
        body: cursorSearchBody,
        answer: 'A page of the tokens that match.',
        examples: cursorSearchExamples,
        response: { 200: tokenPage, ...failures(...commonFailures, 413, 415) },
      },
    },
    async (request, reply) => {
      const { query, ...page } = request.body;
      return answerInSlices(ctx, reply, await searchTokens(ctx, workOf(request), { query, page: pageOf(page) }));
    },
  );
};
