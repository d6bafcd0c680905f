// The route of GET /permissions.
import { z } from 'zod';
import { applicationTypes, listPermissions, permissions } from './permissions.ts';
import { commonFailures, type Examples, failures } from '../../platform/http/schemas.ts';
import type { App } from '../../platform/http/app-type.ts';
import type { AccessContext } from './context.ts';

const permissionQuery = z.object({
  application_type: z
    .enum(applicationTypes, 'must be private, public or management')
    .optional()
    .meta({ description: 'Only permissions that applications of this type usually have.', example: 'public' }),
});

const permissionRecord = z
  .object({
    type: z.string().meta({
      description: 'The name of the permission.',
      'x-extensible-enum': permissions,
      example: 'token:create',
    }),
    description: z.string().meta({ description: 'What the permission allows.', example: 'Create tokens and tokenize' }),
    application_types: z
      .array(z.string().meta({ 'x-extensible-enum': [...applicationTypes], example: 'private' }))
      .meta({ description: 'The types of application that usually have the permission. Any application may have it.' }),
  })
  .meta({ id: 'Permission', description: 'A permission that an application can have.' });

const permissionList = z
  .array(permissionRecord)
  .meta({ id: 'PermissionList', description: 'A list of all permissions.' });

const permissionExamples: { response: Examples } = {
  response: {
    public: {
      summary: 'The permissions of public applications',
      value: listPermissions('public'),
    },
  },
};

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
