// Routes of /tenants/self: the tenant of the caller, and its usage report.
import { changeTenant, deleteTenant, getTenant, reportUsage } from './tenants.ts';
import type { AccessContext } from './context.ts';
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { workOf } from './authenticate.ts';
import { bodyFailures, commonFailures, failures, noContent } from '../../platform/http/schemas.ts';
import {
  tenantChange,
  tenantChangeExamples,
  tenantExamples,
  tenantRecord,
  usageExamples,
  usageQuery,
  usageReport,
} from './tenants.schema.ts';

const tags = ['Tenants'];

export const tenantsRoutes = (app: App, ctx: AccessContext): void => {
  app.get(
    '/tenants/self',
    {
      config: { permission: 'tenant:read' },
      schema: {
        operationId: 'getTenant',
        summary: 'Read the tenant',
        description: 'Reads the tenant that the API key belongs to.\n\nPermission: `tenant:read`.',
        tags,
        answer: 'The tenant.',
        examples: tenantExamples,
        response: { 200: tenantRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getTenant(ctx, workOf(request)),
  );

  app.put(
    '/tenants/self',
    {
      config: { permission: 'tenant:update' },
      schema: {
        operationId: 'updateTenant',
        summary: 'Change the tenant',
        description:
          'Replaces name and settings. The change is effective at once, in all processes of the vault. A key that would take away that members need a second factor gets a 403: a member does so in the console.\n\nPermission: `tenant:update`.',
        tags,
        body: tenantChange,
        answer: 'The changed tenant.',
        examples: tenantChangeExamples,
        response: { 200: tenantRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await changeTenant(ctx, workOf(request), request.body)),
  );

  app.delete(
    '/tenants/self',
    {
      config: { permission: 'tenant:delete' },
      schema: {
        operationId: 'deleteTenant',
        summary: 'Delete the tenant',
        description:
          'Deletes the tenant for good. Its encryption keys are destroyed, so that no one can read what it stored. All its API keys end, including the key of the caller.\n\nPermission: `tenant:delete`.',
        tags,
        answer: 'The tenant is deleted.',
        response: { 204: noContent, ...failures(...commonFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await deleteTenant(ctx, workOf(request))),
  );

  app.get(
    '/tenants/self/reports/usage',
    {
      config: { permission: 'report:read' },
      schema: {
        operationId: 'getUsageReport',
        summary: 'Read the usage report',
        description:
          'Counts the tokens of the tenant by type. With `from`, also what requests did by hour or by day: they stored, used, revealed or masked tokens, were refused, or failed. Processes add their figures once a minute, so the last minute is not in them, and a process that dies loses at most a minute of its own. Hours in which nothing was done are left out. Kept for `USAGE_RETENTION_DAYS`.\n\nPermission: `report:read`.',
        tags,
        querystring: usageQuery,
        answer: 'The report.',
        examples: usageExamples,
        response: { 200: usageReport, ...failures(...commonFailures) },
      },
    },
    async (request) => reportUsage(ctx, workOf(request), request.query),
  );
};
