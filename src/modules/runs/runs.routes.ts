// Routes of /runs.
import { workOf } from '../access/authenticate.ts';
import type { AccessContext } from '../access/context.ts';
import type { App } from '../../platform/http/app-type.ts';
import { commonFailures, failures } from '../../platform/http/schemas.ts';
import { pageOf } from '../../platform/base/pagination.ts';
import { getRun, listRuns } from './runs.ts';
import { runExamples, runPage, runPageExamples, runParams, runQuery, runRecord } from './runs.schema.ts';

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
