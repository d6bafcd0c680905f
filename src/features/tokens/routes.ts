// /tokens: reading one back.
import type { Context } from '../../context.ts';
import { callerOf } from '../../http/authenticate.ts';
import type { App } from '../../http/app-type.ts';
import { failures } from '../../http/schemas.ts';
import { getToken } from '../../vault/tokens.ts';
import { tokenExamples, tokenIdParams, tokenRecord } from './schema.ts';

export const tokensRoutes = (app: App, ctx: Context): void => {
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
        response: { 200: tokenRecord, ...failures(400, 401, 403, 404, 429, 500, 503) },
      },
    },
    async (request) => getToken(ctx, callerOf(request), request.params.id),
  );
};
