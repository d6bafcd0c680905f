// Routes and schemas of /runs.
import { z } from 'zod';
import { actorType } from '../logs/logs.schema.ts';
import { ANY_FAILURE } from './rows.ts';
import { runKinds, runOutcomes } from '../../platform/db/run-rows.ts';
import {
  APPLICATION_ID,
  boundary,
  CARD_TOKEN_ID,
  commonFailures,
  CREATED_AT,
  cursorQuery,
  date,
  type Examples,
  failures,
  givenUuid,
  oneOf,
  oneUuid,
  onlyPage,
  pageSchema,
  REACTOR_ID,
  TENANT_ID,
  TRACE_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { workOf } from '../access/authenticate.ts';
import type { AccessContext } from '../access/context.ts';
import type { App } from '../../platform/http/app-type.ts';
import { pageOf } from '../../platform/base/pagination.ts';
import { getRun, listRuns } from './runs.ts';

const RUN_ID = '019ac3d5-7f63-7b1e-9a64-0f2d7c5b8e13';

const CLASS_SIZE = 100;

const runQuery = z.object({
  ...cursorQuery('WyIwMTlhYzNkNS03ZjYzLTdiMWUtOWE2NC0wZjJkN2M1YjhlMTMiXQ'),
  outcome: oneOf(
    [...runOutcomes, ANY_FAILURE],
    'Only runs with this outcome. `any_failure`: each outcome but `success` and `refused`.',
    'crashed',
  ),
  kind: oneOf(runKinds, 'Only runs of this kind.', 'reactor'),
  resource_id: oneUuid('Only runs of this reactor, or of this stored proxy and its transforms.', REACTOR_ID),
  actor_id: oneUuid('Only runs that this application, user or session caused.', APPLICATION_ID),
  destination_status: z
    .string('must be given once')
    .regex(/^[1-5](?:xx|\d\d)$/, 'must be a status such as 404, or a class of them such as 4xx or 5xx')
    .transform((text) => {
      const least = Number(text.replace('xx', '00'));
      return { least, most: text.endsWith('xx') ? least + CLASS_SIZE - 1 : least };
    })
    .optional()
    .meta({
      description: 'Only runs to which the destination answered with this status: a number, or `4xx` or `5xx`.',
      type: 'string',
      example: '5xx',
    }),
  start_date: boundary('Only runs that began at this time or later.'),
  end_date: boundary('Only runs that began before this time.'),
});

const runParams = z.object({ id: givenUuid.meta({ description: 'The id of the run.', example: RUN_ID }) });

const runRecord = z
  .object({
    id: uuid('The id of the run.', RUN_ID),
    tenant_id: uuid('The id of the tenant.', TENANT_ID),
    kind: z.string().meta({
      description: 'What ran: the code of a reactor, a request of the proxy, or a transform of a stored proxy.',
      'x-extensible-enum': [...runKinds],
      example: 'reactor',
    }),
    resource_id: uuid(
      'The id of the reactor, or of the stored proxy. Left out for a request of the proxy that names its destination.',
      REACTOR_ID,
    ).optional(),
    version: z
      .string()
      .optional()
      .meta({ description: 'Changes with the code and the configuration that ran.', example: '3.1' }),
    actor_id: uuid(
      'The id of the application, user or session that caused it. Left out for anonymous clients.',
      APPLICATION_ID,
    ).optional(),
    actor_type: actorType,
    outcome: z.string().meta({
      description:
        'How it ended. `success`: code returned, or a destination answered below 500. `refused`: rules, limits or the code refused the request. `failed`: a destination answered 500 or more, or could not be reached. `crashed`: the code threw another error, or its result cannot be read. `timed_out`, `out_of_memory`: a limit of the sandbox ended it. `cancelled`: the caller left. `unknown`: the process of the server died in between.',
      'x-extensible-enum': [...runOutcomes],
      example: 'crashed',
    }),
    status: z.int().optional().meta({
      description: 'The status of the response to the caller. Left out if there was none.',
      example: 500,
    }),
    duration_ms: z.int().optional().meta({ description: 'The time that it took, in milliseconds.', example: 41 }),
    cpu_ms: z
      .number()
      .optional()
      .meta({ description: 'The CPU time of the code, in milliseconds. Left out if no code ran.', example: 3.2 }),
    error: z.string().optional().meta({
      description:
        'The name of the error: a class of JavaScript or of the SDK (`Error` for any other), a code of a problem, or a code of the sandbox or of `fetch`.',
      example: 'TypeError',
    }),
    line: z.int().optional().meta({ description: 'The line of the code that threw, from 1.', example: 12 }),
    destination_host: z.string().optional().meta({
      description: 'The host that it last sent a request to, with the port where it is not 443.',
      example: 'api.example.com',
    }),
    destination_status: z
      .int()
      .optional()
      .meta({ description: 'The status that this host answered. Left out if it did not answer.', example: 200 }),
    trace_id: z.string().optional().meta({ description: 'The `SVC-TRACE-ID` of the request.', example: TRACE_ID }),
    token_ids: z
      .array(z.string())
      .meta({ description: 'The ids of the tokens whose values it got.', example: [CARD_TOKEN_ID] }),
    echoes: z.int().optional().meta({
      description: 'How many values the echo guard found in the response. Left out if it found none.',
      example: 1,
    }),
    created_at: date('When it began.'),
  })
  .meta({ id: 'Run', description: 'What happened to one run of code, or to one request of the proxy.' });

const runPage = pageSchema(runRecord, 'RunPage');

const run = {
  id: RUN_ID,
  tenant_id: TENANT_ID,
  kind: 'reactor',
  resource_id: REACTOR_ID,
  version: '3.1',
  actor_id: APPLICATION_ID,
  actor_type: 'application',
  outcome: 'crashed',
  status: 500,
  duration_ms: 41,
  cpu_ms: 3.2,
  error: 'TypeError',
  line: 12,
  destination_host: 'api.example.com',
  destination_status: 200,
  trace_id: TRACE_ID,
  token_ids: [CARD_TOKEN_ID],
  created_at: CREATED_AT,
};

const runExamples: { response: Examples } = { response: { crashed: { summary: 'A crash', value: run } } };

const runPageExamples: { response: Examples } = {
  response: { page: { summary: 'A page', value: { pagination: onlyPage(1), data: [run] } } },
};

const tags = ['Runs'];

export const runsRoutes = (app: App, ctx: AccessContext): void => {
  app.get(
    '/runs',
    {
      config: { permission: 'log:read' },
      schema: {
        operationId: 'listRuns',
        summary: 'List runs',
        description:
          'Lists what happened to each run of a reactor or transform and to each request of the proxy, newest first. A run is listed when it has ended, and for `RUN_RETENTION_DAYS`. `start_date` is part of the interval, `end_date` is not; both are about when runs began. No run has arguments, bodies, results or texts of code.\n\nPermission: `log:read`.',
        tags,
        querystring: runQuery,
        answer: 'A page of runs.',
        examples: runPageExamples,
        response: { 200: runPage, ...failures(...commonFailures) },
      },
    },
    async (request) => {
      const { page, size, start, ...filter } = request.query;
      return listRuns(ctx, workOf(request), { filter, page: pageOf({ page, size, start }) });
    },
  );

  app.get(
    '/runs/:id',
    {
      config: { permission: 'log:read' },
      schema: {
        operationId: 'getRun',
        summary: 'Get a run',
        description:
          'Returns what happened to one run. A run that is under way, or older than `RUN_RETENTION_DAYS`, is a 404.\n\nPermission: `log:read`.',
        tags,
        params: runParams,
        answer: 'The run.',
        examples: runExamples,
        response: { 200: runRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getRun(ctx, workOf(request), request.params.id),
  );
};
