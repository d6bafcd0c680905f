// /reactors: made, listed, read, changed, ended, and invoked.
import type { Context } from '../../context.ts';
import { answer, sendAnswer } from '../../http/answers.ts';
import type { App } from '../../http/app-type.ts';
import { callerOf } from '../../http/authenticate.ts';
import { pageOf } from '../../http/pagination.ts';
import { bodyFailures, commonFailures, failures, noContent } from '../../http/schemas.ts';
import { CodeResponse } from '../../runtime/code-errors.ts';
import { invokeReactor } from '../../runtime/invoke.ts';
import { changeReactor, createReactor, deleteReactor, getReactor, listReactors } from '../../runtime/reactors.ts';
import { reactExamples, reactFailures, reactRequest, reactResponse } from './react-schema.ts';
import {
  newReactor,
  newReactorExamples,
  reactorChange,
  reactorChangeExamples,
  reactorExamples,
  reactorPage,
  reactorPageExamples,
  reactorParams,
  reactorQuery,
  reactorRecord,
} from './schema.ts';

const tags = ['Reactors'];

export const reactorsRoutes = (app: App, ctx: Context): void => {
  app.post(
    '/reactors',
    {
      config: { permission: 'reactor:create', creates: '/reactors', idempotency: 'brief' },
      schema: {
        operationId: 'createReactor',
        summary: 'Create a reactor',
        description:
          "Creates a reactor from a formula: an official one, or one of the tenant. The configuration must fit the formula's contract, and is encrypted at rest. The code has the permissions of the application: the caller must hold all that the application has.\n\nPermission: `reactor:create`.",
        tags,
        body: newReactor,
        answer: 'The reactor.',
        examples: newReactorExamples,
        response: { 201: reactorRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await createReactor(ctx, callerOf(request), request.body)),
  );
  app.get(
    '/reactors',
    {
      config: { permission: 'reactor:read' },
      schema: {
        operationId: 'listReactors',
        summary: 'List reactors',
        description:
          'Lists the reactors of the tenant, newest first, with their configurations.\n\nPermission: `reactor:read`.',
        tags,
        querystring: reactorQuery,
        answer: 'A page of reactors.',
        examples: reactorPageExamples,
        response: { 200: reactorPage, ...failures(...commonFailures, 413) },
      },
    },
    async (request) => {
      const { query } = request;
      const { id: ids, name } = query;
      return listReactors(ctx, callerOf(request), { ids, name, page: pageOf(query) });
    },
  );
  app.get(
    '/reactors/:id',
    {
      config: { permission: 'reactor:read' },
      schema: {
        operationId: 'getReactor',
        summary: 'Read a reactor',
        description: 'Reads one reactor, with its formula and its configuration.\n\nPermission: `reactor:read`.',
        tags,
        params: reactorParams,
        answer: 'The reactor.',
        examples: reactorExamples,
        response: { 200: reactorRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getReactor(ctx, callerOf(request), request.params.id),
  );
  app.put(
    '/reactors/:id',
    {
      config: { permission: 'reactor:update', idempotency: 'brief' },
      schema: {
        operationId: 'updateReactor',
        summary: 'Change a reactor',
        description:
          'Replaces name, configuration and application. The formula cannot change. Where the reactor has an application, or gets one, the caller must hold all that the application has.\n\nPermission: `reactor:update`.',
        tags,
        params: reactorParams,
        body: reactorChange,
        answer: 'The changed reactor.',
        examples: reactorChangeExamples,
        response: { 200: reactorRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) =>
      answer(reply, await changeReactor(ctx, callerOf(request), request.params.id, request.body)),
  );
  app.delete(
    '/reactors/:id',
    {
      config: { permission: 'reactor:delete' },
      schema: {
        operationId: 'deleteReactor',
        summary: 'Delete a reactor',
        description: 'Deletes a reactor. Its formula and its application stay.\n\nPermission: `reactor:delete`.',
        tags,
        params: reactorParams,
        answer: 'The reactor is deleted.',
        response: { 204: noContent, ...failures(...commonFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await deleteReactor(ctx, callerOf(request), request.params.id)),
  );
  app.post(
    '/reactors/:id/react',
    {
      config: { permission: 'token:use', idempotency: 'brief' },
      schema: {
        operationId: 'invokeReactor',
        summary: 'Invoke a reactor',
        description:
          "Replaces expressions in `args` by the values of tokens, checks and casts them by the formula's request parameters, and runs the code with them in the sandbox. What the code returns under `raw` is `raw` of the answer. What it returns under `tokenize` is tokenized, all or nothing, with the permissions of the reactor's application, or of the caller where the reactor has none. The use of each token is logged before the code runs. Errors of the SDK's classes have their own status. Any other error of the code is a 500, with its message under `errors.error` and the line of the code in the header `SVC-CODE-LINE`.\n\nPermission: `token:use` on the container of each token.",
        tags,
        params: reactorParams,
        body: reactRequest,
        isBodyOptional: true,
        answer: 'What the code returned.',
        examples: reactExamples,
        response: { 200: reactResponse, ...failures(...reactFailures) },
      },
    },
    async (request, reply) => {
      const made = await invokeReactor(ctx, callerOf(request), request.params.id, request.body ?? {});
      return made instanceof CodeResponse ? sendAnswer(reply, made) : answer(reply, made);
    },
  );
};
