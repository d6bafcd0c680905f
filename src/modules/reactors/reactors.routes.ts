// Routes and schemas of /reactors, and the invocation of a reactor.
import { z } from 'zod';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { invalidField } from '../../platform/base/errors.ts';
import { ECHO_MODE_NEEDED, echoModeOf } from '../access/echo-mode.ts';
import { bodyFailures, CARD_TOKEN_ID, type Examples, failures } from '../../platform/http/schemas.ts';
import type { Json } from '../../platform/json/json.ts';
import { EXPRESSION_TOKENS_MAX } from '../tokens/expressions/expansion.ts';
import { GENERIC_TOKEN_ID } from '../tokens/token-request.schema.ts';
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
import { configurationKeywords, formulaFields } from '../code/formula-fields.ts';
import { optional } from '../../platform/base/optional.ts';
import { uuidOfName } from '../../platform/crypto/ids.ts';
import { checkGrants } from '../access/grants.ts';
import type { Work } from '../access/work.ts';
import { CodeResponse } from '../code/code-errors.ts';
import { checkFormulaCode } from '../code/formulas.ts';
import type { ReactorsContext } from './context.ts';
import { type Echo, invokeReactor, type ReactResult, runReactor } from './invoke.ts';
import type { ReactorForRun } from './reactor-finder.ts';
import {
  changeReactor,
  createReactor,
  deleteReactor,
  findCodeOfReactor,
  findOwnCodeOfReactor,
  getReactor,
  listReactors,
  parseConfiguration,
  patchReactor,
  restoreReactor,
} from './reactors.ts';
import { answer, sendAnswer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { disconnectOf } from '../../platform/http/connections.ts';
import { workOf } from '../access/authenticate.ts';
import { asksForDryRun } from '../access/dry-run-header.ts';
import { dryRunReactor } from './dry-run.ts';
import { resourceRoutes } from '../access/resource.routes.ts';
import { formulaVersions } from '../code/formulas.routes.ts';
import { versionRoutes } from '../code/versions.routes.ts';

// Schemas of POST /reactors/{id}/react. The contract of the formula has the rules for args (modules/code/contract.ts).

const argsField = z
  .any()
  .optional()
  // Null is absence here too: the document says it of any JSON.
  .transform((args: unknown) => (args ?? undefined) as Json | undefined)
  .meta({
    description: `The arguments for the code. The server checks those that the request parameters of the formula name, and casts them to their types. It passes others on unchanged. Strings may contain expressions, over at most ${EXPRESSION_TOKENS_MAX} tokens. A string that is exactly one expression becomes the value itself, such as the whole object of a card.`,
    examples: [{ card: `{{ ${CARD_TOKEN_ID} }}` }],
  });

/** Without a body there are no args. */
const reactRequest = z
  .object({ args: argsField }, 'the body must be an object with args')
  .meta({ id: 'ReactRequest', description: 'The invocation of a reactor.' })
  .nullish();

const testRequest = z
  .object(
    {
      code: optional(formulaFields.code).meta({
        description: 'The code to run. Left out: the deployed code.',
        example: exampleReactor.formula.code,
      }),
      configuration: z
        .record(z.string(), z.any(), 'must be an object')
        .meta(configurationKeywords)
        .nullish()
        .transform((configuration) => (configuration ?? undefined) as Record<string, unknown> | undefined)
        .meta({
          description:
            "The configuration to run with, whole, by the formula's contract. Left out: that of the reactor.",
          example: exampleReactor.configuration,
        }),
      args: argsField,
    },
    'the body must be an object',
  )
  .meta({ id: 'TestReactorRequest', description: 'A draft of a reactor to run.' })
  .nullish();

const logLevels = ['debug', 'log', 'info', 'warn', 'error'];

const reactResponse = z
  .object({
    tokens: z
      .any()
      .optional()
      .meta({
        description: 'The tokens of what the code returned under `tokenize`, as POST /tokenize returns them.',
        examples: [GENERIC_TOKEN_ID],
      }),

    raw: z
      .any()
      .optional()
      .meta({
        description: 'What the code returned under `raw`: any JSON.',
        examples: [{ shop: 'example-shop', last4: '4242' }],
      }),

    logs: z
      .array(
        z
          .object({
            level: z.enum(logLevels).meta({
              description: 'The function of the console that wrote the line.',
              'x-extensible-enum': logLevels,
              example: 'log',
            }),
            text: z.string().meta({ description: 'The text that the code wrote.', example: 'charging example-shop' }),
          })
          .meta({ id: 'CodeLogLine', description: 'A line that code wrote to its console.' }),
      )
      .optional()
      .meta({
        description:
          'What the code wrote to its console, with digits masked that look like a card number. Only on a development server.',
      }),
  })
  .meta({ id: 'ReactorResponse', description: 'The result of the code, without what it did not return.' });

/** Errors that the code throws have statuses of their own. */
const reactFailures = [...bodyFailures, 404, 408] as const;
const { SHOP } = exampleReactor.configuration;

const reactExamples: { request: Examples; response: Examples } = {
  request: {
    card: { summary: 'The value of a card as an argument', value: { args: { card: `{{ ${CARD_TOKEN_ID} }}` } } },
  },

  response: {
    card: { summary: 'The last digits of the card', value: { raw: { shop: SHOP, last4: '4242' } } },
  },
};

const testExamples: { request: Examples; response: Examples } = {
  request: {
    card: {
      summary: 'A sample value in place of a token',
      value: { code: exampleReactor.formula.code, args: { card: { number: '4242424242424242' } } },
    },
  },
  response: reactExamples.response,
};

// Runs a draft of a reactor's code or configuration without deploying it. Everything else is as in an invocation.

/** Version of the run of a draft. */
const DRAFT = 'draft';

type Trial = {
  /** Undefined for the deployed code. */
  code?: string | undefined;
  /** Not checked yet. Undefined for that of the reactor. */
  configuration?: Record<string, unknown> | undefined;
  args?: Json | undefined;
};

/** The code acts with the permissions of the application: whoever chooses the code must hold all of them, as to deploy it. */
const checkApplicationOf = async (
  ctx: ReactorsContext,
  work: Work,
  { application_id }: ReactorForRun,
): Promise<void> => {
  if (application_id === undefined) return;
  const caller = await ctx.callers.findCallerOfApplication(work, application_id);
  if (!caller) return;
  const { permissions, rules, allowed_hosts, limits } = caller;
  checkGrants(work, { permissions, rules, allowed_hosts, limits, application_id });
};

/**
 * The permission for the values in `args` is token:use, as in an invocation.
 * @throws forbidden for what the application holds and the caller does not; invalidInput for a configuration that does not fit;
 * unprocessable for code that does not compile; as invokeReactor.
 */
const testReactor = (
  ctx: ReactorsContext,
  work: Work,
  id: string,
  { code, configuration, args }: Trial,
  signal?: AbortSignal,
): Promise<ReactResult | CodeResponse> => {
  const prepare = async (reactor: ReactorForRun): Promise<ReactorForRun> => {
    await checkApplicationOf(ctx, work, reactor);
    const { formula } = reactor;
    const parsed = configuration && parseConfiguration(configuration, id, formula);
    if (code !== undefined) await checkFormulaCode(ctx, work, code);
    const tried = { code: code ?? formula.code, configuration: parsed ?? reactor.configuration };
    // An executor keeps compiled code by its version.
    const version = `${DRAFT} ${uuidOfName(JSON.stringify(tried))}`;
    return { ...reactor, formula: { ...formula, code: tried.code, version }, configuration: tried.configuration };
  };
  return runReactor(ctx, work, id, { args, signal, draft: { version: DRAFT, prepare } });
};

/** @throws invalidField for a mode that does not exist. */
const echoOf = ({ headers }: FastifyRequest, reply: FastifyReply): Echo => {
  const asked = headers['svc-echo-guard'];
  const mode = echoModeOf(asked);
  if (asked !== undefined && mode === undefined) throw invalidField('SVC-ECHO-GUARD', ECHO_MODE_NEEDED);
  return { asked: mode, found: (echoes) => void reply.header('SVC-ECHOES', String(echoes)) };
};

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
      config: { permission: 'token:use', idempotency: 'brief', runsCode: true, takesDryRun: true },
      schema: {
        operationId: 'invokeReactor',
        summary: 'Invoke a reactor',
        description:
          'Replaces expressions in `args` by the values of tokens, checks and casts them by the request parameters of the formula, and runs the code with them in the sandbox. What the code returns under `raw` is `raw` of the response. What it returns under `tokenize` is tokenized, all or nothing, with the permissions of the application of the reactor, or of the caller if the reactor has none. The use of each token is logged before the code runs. The error classes of the SDK have their own statuses. Any other error of the code is a 500, with its message under `errors.error` and the line of the code in the header `SVC-CODE-LINE`, and the name of the error in `SVC-CODE-ERROR`. With `SVC-DRY-RUN: true` no code runs: the response says what decides about each token, and has `args` with masks in place of values.\n\nPermission: `token:use` on the container of each token.',
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
      if (asksForDryRun(request.headers)) {
        const { id } = request.params;
        return answer(reply, await dryRunReactor(ctx, workOf(request), id, request.body?.args));
      }
      // With an idempotency key the run goes on: its answer is kept for the client to ask again.
      const signal = request.idempotency ? undefined : disconnectOf(reply);
      const { id } = request.params;
      const made = await invokeReactor(ctx, workOf(request), id, request.body ?? {}, signal, echoOf(request, reply));
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
