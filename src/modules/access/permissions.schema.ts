// Schemas of /permissions.
import { z } from 'zod';
import { applicationTypes, listPermissions, permissions } from './permissions.ts';
import type { Examples } from '../../platform/http/schemas.ts';

export const permissionQuery = z.object({
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

export const permissionList = z
  .array(permissionRecord)
  .meta({ id: 'PermissionList', description: 'A list of all permissions.' });

export const permissionExamples: { response: Examples } = {
  response: {
    public: {
      summary: 'The permissions of public applications',
      value: listPermissions('public'),
    },
  },
};
