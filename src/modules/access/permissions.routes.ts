// The route of GET /permissions.
import { listPermissions } from './permissions.ts';
import type { App } from '../../platform/http/app-type.ts';
import type { AccessContext } from './context.ts';
import { commonFailures, failures } from '../../platform/http/schemas.ts';
import { permissionExamples, permissionList, permissionQuery } from './permissions.schema.ts';

export const permissionsRoutes = (app: App, _ctx: AccessContext): void => {
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
