// Routes of /token-intents.
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { bodyFailures, commonFailures, failures, noContent } from '../../platform/http/schemas.ts';
import { workOf } from '../access/authenticate.ts';
import type { TokensContext } from './context.ts';
import { createIntent, deleteIntent, getIntent, INTENT_HOURS } from './token-intents.ts';
import { intentExamples, intentIdParams, intentRecord, newIntent, newIntentExamples } from './token-intents.schema.ts';

const ALL = '/token-intents';
const ONE = `${ALL}/:id`;
const tags = ['Tokens'];

export const tokenIntentsRoutes = (app: App, ctx: TokensContext): void => {
  app.post(
    ALL,
    {
      config: { permission: 'token:create', creates: ALL, servesBrowsers: true },
      schema: {
        operationId: 'createTokenIntent',
        summary: 'Create a token intent',
        description: `Creates a token for ${INTENT_HOURS} hours, such as of a card that is to be charged before it is kept. Expressions take it as any token. No response has its fingerprint, and no deduplication finds it. A security code is kept as long as that of any card. \`POST /tokens\` with \`token_intent_id\` in place of \`data\` turns it into a token, once and without its security code.\n\nPermission: \`token:create\` on the container of the type.`,
        tags,
        body: newIntent,
        answer: 'The token intent.',
        examples: newIntentExamples,
        response: { 201: intentRecord, ...failures(...bodyFailures) },
      },
    },
    async (request, reply) => answer(reply, await createIntent(ctx, workOf(request), request.body)),
  );

  app.get(
    ONE,
    {
      config: { permission: 'token:read' },
      schema: {
        operationId: 'getTokenIntent',
        summary: 'Read a token intent',
        description:
          'Reads a token intent, without its data. The read is logged before the response is sent.\n\nPermission: `token:read` on the container of the intent.',
        tags,
        params: intentIdParams,
        answer: 'The token intent.',
        examples: intentExamples,
        response: { 200: intentRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getIntent(ctx, workOf(request), request.params.id),
  );

  app.delete(
    ONE,
    {
      config: { permission: 'token:delete' },
      schema: {
        operationId: 'deleteTokenIntent',
        summary: 'Delete a token intent',
        description:
          'Deletes a token intent, with its security code.\n\nPermission: `token:delete` on the container of the intent.',
        tags,
        params: intentIdParams,
        answer: 'The token intent is deleted.',
        response: { 204: noContent, ...failures(...commonFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await deleteIntent(ctx, workOf(request), request.params.id)),
  );
};
