// /logs: what was done to what, by whom. Read only.
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { Context } from '../../context.ts';
import { entityTypes } from '../../audit/entities.ts';
import { exportLogs, listLogs } from '../../audit/logs.ts';
import type { App } from '../../http/app-type.ts';
import { callerOf } from '../../http/authenticate.ts';
import { pageOf } from '../../http/pagination.ts';
import { commonFailures, failures } from '../../http/schemas.ts';
import { exportText, formatOf } from './export.ts';
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
          'Lists what was done in the tenant and what was refused, newest first. `start_date` is part of the interval, `end_date` is not. With `Accept: application/x-ndjson` or `text/csv` the answer is a stream of all entries that match the filters, without pages. Reads of the log are logged too, and listed with `entity_type=log` only.\n\nPermission: `log:read`.',
        tags,
        querystring: logQuery,
        answer: 'A page of log entries.',
        examples: logExamples,
        response: { 200: logPage, ...failures(...commonFailures) },
      },
    },
    async (request, reply) => {
      const { page, size, start, ...filter } = request.query;
      const format = formatOf(request.headers.accept);
      if (format === 'application/json')
        return listLogs(ctx, callerOf(request), { filter, page: pageOf({ page, size, start }) });
      const portions = await exportLogs(ctx, callerOf(request), filter);
      const text = Readable.from(exportText(portions, format));
      return (reply as FastifyReply).type(`${format}; charset=utf-8`).send(text);
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
          'Lists the kinds of entities in the log, in alphabetical order and without pages.\n\nPermission: `log:read`.',
        tags,
        answer: 'All kinds of entities.',
        examples: entityTypeExamples,
        response: { 200: entityTypeList, ...failures(...commonFailures) },
      },
    },
    async () => [...entityTypes],
  );
};
