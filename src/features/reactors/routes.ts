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
          "Makes a reactor of a formula: official, or the tenant's own. The configuration must fit the formula's contract; it is sealed at rest. An application lends its permissions to the code: the caller must hold all that it has.\n\nPermission: `reactor:create`.",
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
          'Replaces name, configuration and application. The formula cannot change. Where the reactor has an application, or gets one, the caller must hold all that it has.\n\nPermission: `reactor:update`.',
        tags,
        params: reactorParams,
        body: reactorChange,
        answer: 'The reactor as it is now.',
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
        description: 'Deletes a reactor; its formula and its application stay.\n\nPermission: `reactor:delete`.',
        tags,
        params: reactorParams,
        answer: 'The reactor is gone.',
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
          "Puts the values of tokens in the place of expressions in `args`, checks and casts them by the formula's request parameters, and runs the code on them in the sandbox. What the code returns under `raw` is the answer's `raw`; what it returns under `tokenize` is tokenized, with the permissions of the reactor's application or else the caller's, all or nothing. The use of each token is in the log before the code runs. Errors of the SDK's classes keep their status; whatever else the code throws is a 500 with its message under `errors.error`.\n\nPermission: `token:use` on the container of each token.",
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
