// /logs: what was done to what, by whom. Read only.
import type { Context } from '../../context.ts';
import { entityTypes } from '../../audit/entities.ts';
import { listLogs } from '../../audit/logs.ts';
import type { App } from '../../http/app-type.ts';
import { callerOf } from '../../http/authenticate.ts';
import { pageOf } from '../../http/pagination.ts';
import { commonFailures, failures } from '../../http/schemas.ts';
import { entityTypeExamples, entityTypeList, logExamples, logPage, logQuery } from './schema.ts';

const tags = ['Logs'];

export const logsRoutes = (app: App, ctx: Context): void => {
  app.get(
    '/logs',
    {
      config: { permission: 'log:read' },
      schema: {
        operationId: 'listLogs',
        summary: 'List logs',
        description:
          'Lists what was done in the tenant, newest first. `start_date` belongs to the interval, `end_date` does not.\n\nPermission: `log:read`.',
        tags,
        querystring: logQuery,
        answer: 'A page of log entries.',
        examples: logExamples,
        response: { 200: logPage, ...failures(...commonFailures) },
      },
    },
    async (request) => {
      const { entity_type, entity_id, start_date, end_date, ...page } = request.query;
      return listLogs(ctx, callerOf(request), {
        filter: { entity_type, entity_id, start_date, end_date },
        page: pageOf(page),
      });
    },
  );

  app.get(
    '/logs/entity-types',
    {
      config: { permission: 'log:read' },
      schema: {
        operationId: 'listLogEntityTypes',
        summary: 'List entity types',
        description:
          'The kinds of entities that logs tell of, in alphabetical order. Not paged.\n\nPermission: `log:read`.',
        tags,
        answer: 'All kinds.',
        examples: entityTypeExamples,
        response: { 200: entityTypeList, ...failures(...commonFailures) },
      },
    },
    async () => [...entityTypes],
  );
};
