// Routes of /reactors, and the invocation of a reactor.
import { answer, sendAnswer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { disconnectOf } from '../../platform/http/disconnect.ts';
import { failures } from '../../platform/http/schemas.ts';
import { workOf } from '../access/authenticate.ts';
import { resourceRoutes } from '../access/resource.routes.ts';
import type { FastifyReply } from 'fastify';
import { formulaVersions } from '../code/formulas.routes.ts';
import { versionRoutes } from '../code/versions.routes.ts';
import { CodeResponse } from '../code/code-errors.ts';
import type { ReactorsContext } from './context.ts';
import { invokeReactor, type ReactResult } from './invoke.ts';
import {
  changeReactor,
  createReactor,
  deleteReactor,
  findCodeOfReactor,
  findOwnCodeOfReactor,
  getReactor,
  listReactors,
  patchReactor,
  restoreReactor,
} from './reactors.ts';
import {
  reactExamples,
  reactFailures,
  reactRequest,
  reactResponse,
  testExamples,
  testRequest,
} from './react.schema.ts';
import { testReactor } from './test-reactor.ts';
import {
  exampleReactor,
  newReactor,
  newReactorExamples,
  reactorChange,
  reactorChangeExamples,
  reactorExamples,
  reactorPage,
  reactorPageExamples,
  reactorParams,
  reactorPatch,
  reactorPatchExamples,
  reactorQuery,
  reactorRecord,
} from './reactors.schema.ts';

/** The result, or the response that the code made. A browser that opens the response runs no script of it. */
const sendResult = (reply: FastifyReply, made: ReactResult | CodeResponse) =>
  made instanceof CodeResponse
    ? sendAnswer(reply, { ...made, headers: { ...made.headers, ...NO_SCRIPTS } })
    : answer(reply, made);

/** For a response made by code, which may be HTML. */
const NO_SCRIPTS = { 'content-security-policy': "sandbox; default-src 'none'" };

export const reactorsRoutes = (app: App, ctx: ReactorsContext): void => {
  const routes = resourceRoutes(app, ctx, {
    path: '/reactors',
    noun: 'reactor',
    plural: 'reactors',
    permission: 'reactor',
    params: reactorParams,
    record: reactorRecord,
  });
  routes.create({
    description:
      'Creates a reactor from a formula, an official one or one of the tenant, or with its own `code`. The configuration must fit the contract of the formula, and is encrypted at rest, as is the code. The code has the permissions of the application. The caller must have all of them. One more than a tenant may have is a 409.',
    body: newReactor,
    examples: newReactorExamples,
    failures: [404],
    idempotency: 'brief',
    run: createReactor,
  });
  routes.list({
    description: 'Lists the reactors of the tenant, newest first, with their configurations.',
    query: reactorQuery,
    filter: ({ id, name }) => ({ ids: id, name }),
    page: reactorPage,
    examples: reactorPageExamples,
    failures: [413],
    run: listReactors,
  });
  routes.read({
    description: 'Reads one reactor, with its formula and its configuration.',
    examples: reactorExamples,
    run: getReactor,
  });
  routes.change({
    description:
      'Replaces name, configuration and application, and the code of a reactor that was created with it. The formula cannot change. If the reactor has an application before or after the change, the caller must have all permissions of it.',
    body: reactorChange,
    examples: reactorChangeExamples,
    idempotency: 'brief',
    run: changeReactor,
  });
  routes.patch({
    description:
      'Changes parts of a reactor by a JSON merge patch (RFC 7396): what is left out stays, null removes. The rules of a whole change hold.',
    body: reactorPatch,
    examples: reactorPatchExamples,
    idempotency: 'brief',
    run: patchReactor,
  });
  routes.delete({
    description: 'Deletes a reactor, and its code if it was created with it. Its formula and its application stay.',
    run: deleteReactor,
  });
  app.post(
    '/reactors/:id/react',
    {
      config: { permission: 'token:use', idempotency: 'brief', runsCode: true },
      schema: {
        operationId: 'invokeReactor',
        summary: 'Invoke a reactor',
        description:
          'Replaces expressions in `args` by the values of tokens, checks and casts them by the request parameters of the formula, and runs the code with them in the sandbox. What the code returns under `raw` is `raw` of the response. What it returns under `tokenize` is tokenized, all or nothing, with the permissions of the application of the reactor, or of the caller if the reactor has none. The use of each token is logged before the code runs. The error classes of the SDK have their own statuses. Any other error of the code is a 500, with its message under `errors.error` and the line of the code in the header `SVC-CODE-LINE`, and the name of the error in `SVC-CODE-ERROR`.\n\nPermission: `token:use` on the container of each token.',
        tags: ['Reactors'],
        params: reactorParams,
        body: reactRequest,
        isBodyOptional: true,
        answer: 'The result of the code.',
        examples: reactExamples,
        response: { 200: reactResponse, ...failures(...reactFailures) },
      },
    },
    async (request, reply) => {
      // With an idempotency key the run goes on: its answer is kept for the client to ask again.
      const signal = request.idempotency ? undefined : disconnectOf(reply);
      const made = await invokeReactor(ctx, workOf(request), request.params.id, request.body ?? {}, signal);
      return sendResult(reply, made);
    },
  );
  app.post(
    '/reactors/:id/test',
    {
      config: { permission: 'reactor:update', idempotency: 'brief', runsCode: true },
      schema: {
        operationId: 'testReactor',
        summary: 'Test a draft of a reactor',
        description:
          'Runs code or a configuration without deploying it. It is an invocation in all else: expressions in `args` are replaced by the values of tokens, whose use is logged, and the code has the permissions of the application of the reactor. If it has one, the caller must have all permissions of it. Calls and what is tokenized have their effects. Code that does not compile is a 422 with line and column. In `GET /runs` the version of the run is `draft`.\n\nPermission: `reactor:update`. For a token in `args` also `token:use` on its container.',
        tags: ['Reactors'],
        params: reactorParams,
        body: testRequest,
        isBodyOptional: true,
        answer: 'The result of the code.',
        examples: testExamples,
        response: { 200: reactResponse, ...failures(...reactFailures) },
      },
    },
    async (request, reply) => {
      const signal = request.idempotency ? undefined : disconnectOf(reply);
      return sendResult(reply, await testReactor(ctx, workOf(request), request.params.id, request.body ?? {}, signal));
    },
  );
  versionRoutes<ReactorsContext, typeof formulaVersions.draft>(app, ctx, {
    ...formulaVersions,
    path: '/reactors',
    noun: 'reactor',
    name: 'Reactor',
    tag: 'Reactors',
    exampleId: exampleReactor.id,
    what: 'the code of the formula of a reactor, which all reactors of the formula run',
    find: findCodeOfReactor,
    findToChange: findOwnCodeOfReactor,
    restore: restoreReactor,
  });
};
