// Routes of /logs: pages, exports, and the kinds of entities.
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { AccessContext } from '../access/context.ts';
import { entityTypes } from '../../platform/db/audit-record.ts';
import { exportLogs, listLogs } from './logs.ts';
import type { App } from '../../platform/http/app-type.ts';
import { workOf } from '../access/authenticate.ts';
import { pageOf } from '../../platform/base/pagination.ts';
import { commonFailures, failures } from '../../platform/http/schemas.ts';
import { exportText, formatOf } from './export.ts';
import { entityTypeExamples, entityTypeList, logExamples, logPage, logQuery } from './logs.schema.ts';

const tags = ['Logs'];

export const logsRoutes = (app: App, ctx: AccessContext): void => {
  app.get(
    '/logs',
    {
      config: { permission: 'log:read' },
      schema: {
        operationId: 'listLogs',
        summary: 'List logs',
        description:
          'Lists the operations in the tenant, also refused ones, newest first. `start_date` is part of the interval, `end_date` is not. With `Accept: application/x-ndjson` or `text/csv` the response is a stream of all entries that match the filters, without pages. Reads of the log are logged too, and only listed with `entity_type=log`.\n\nPermission: `log:read`.',
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
        return listLogs(ctx, workOf(request), { filter, page: pageOf({ page, size, start }) });
      const portions = await exportLogs(ctx, workOf(request), filter);
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
