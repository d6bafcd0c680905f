// GET /permissions: what an application may be allowed.
import { listPermissions } from '../../access/permissions.ts';
import type { App } from '../../http/app-type.ts';
import type { Context } from '../../context.ts';
import { commonFailures, failures } from '../../http/schemas.ts';
import { permissionExamples, permissionList, permissionQuery } from './schema.ts';

export const permissionsRoutes = (app: App, _ctx: Context): void => {
  app.get(
    '/permissions',
    {
      config: { permission: 'authenticated' },
      schema: {
        operationId: 'listPermissions',
        summary: 'List permissions',
        description: 'Lists all permissions, in a plain array.\n\nPermission: none beyond a valid key.',
        tags: ['Permissions'],
        querystring: permissionQuery,
        answer: 'The permissions.',
        examples: permissionExamples,
        response: { 200: permissionList, ...failures(...commonFailures) },
      },
    },
    async (request) => listPermissions(request.query.application_type),
  );
};
