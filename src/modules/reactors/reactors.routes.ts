// Routes of /reactors, and the invocation of a reactor.
import { answer, sendAnswer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { disconnectOf } from '../../platform/http/disconnect.ts';
import { failures } from '../../platform/http/schemas.ts';
import { workOf } from '../access/authenticate.ts';
import { resourceRoutes } from '../access/resource.routes.ts';
import { CodeResponse } from '../code/code-errors.ts';
import type { ReactorsContext } from './context.ts';
import { invokeReactor } from './invoke.ts';
import { changeReactor, createReactor, deleteReactor, getReactor, listReactors } from './reactors.ts';
import { reactExamples, reactFailures, reactRequest, reactResponse } from './react.schema.ts';
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
} from './reactors.schema.ts';

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
      'Creates a reactor from a formula: an official one, or one of the tenant. The configuration must fit the contract of the formula, and is encrypted at rest. The code has the permissions of the application. The caller must have all of them. One more than a tenant may have is a 409.',
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
      'Replaces name, configuration and application. The formula cannot change. If the reactor has an application before or after the change, the caller must have all permissions of it.',
    body: reactorChange,
    examples: reactorChangeExamples,
    idempotency: 'brief',
    run: changeReactor,
  });
  routes.delete({
    description: 'Deletes a reactor. Its formula and its application stay.',
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
          'Replaces expressions in `args` by the values of tokens, checks and casts them by the request parameters of the formula, and runs the code with them in the sandbox. What the code returns under `raw` is `raw` of the response. What it returns under `tokenize` is tokenized, all or nothing, with the permissions of the application of the reactor, or of the caller if the reactor has none. The use of each token is logged before the code runs. The error classes of the SDK have their own statuses. Any other error of the code is a 500, with its message under `errors.error` and the line of the code in the header `SVC-CODE-LINE`.\n\nPermission: `token:use` on the container of each token.',
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
      if (!(made instanceof CodeResponse)) return answer(reply, made);
      // A browser that opens the response runs no script of it.
      return sendAnswer(reply, { ...made, headers: { ...made.headers, ...NO_SCRIPTS } });
    },
  );
};
