// Wire shapes of /permissions.
import { z } from 'zod';
import { applicationTypes, listPermissions, permissions } from '../../access/permissions.ts';
import type { Examples } from '../../http/schemas.ts';

export const permissionQuery = z.object({
  application_type: z
    .enum(applicationTypes, 'must be private, public or management')
    .optional()
    .meta({ description: 'Only what applications of this type usually have.', example: 'public' }),
});

export const permissionRecord = z
  .object({
    type: z.string().meta({
      description: 'The permission, as applications name it.',
      'x-extensible-enum': permissions,
      example: 'token:create',
    }),
    description: z.string().meta({ description: 'What it allows.', example: 'Create tokens and tokenize' }),
    application_types: z
      .array(z.string().meta({ 'x-extensible-enum': [...applicationTypes], example: 'private' }))
      .meta({ description: 'The types of application that it is usual for. Any application may have it.' }),
  })
  .meta({ id: 'Permission', description: 'Something that an application may be allowed.' });

export const permissionList = z.array(permissionRecord).meta({ id: 'PermissionList', description: 'All permissions.' });

export const permissionExamples: { response: Examples } = {
  response: {
    public: {
      summary: 'Those of public applications',
      value: listPermissions('public'),
    },
  },
};
