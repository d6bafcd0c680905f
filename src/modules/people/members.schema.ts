// Schemas of /tenants/self/members.
import { z } from 'zod';
import { onlyPage, pageQuery, pageSchema, repeated } from '../../platform/http/list-parameters.ts';
import {
  date,
  type Examples,
  givenUuid,
  history,
  uuid,
  CREATED_AT,
  modified,
  TENANT_ID,
} from '../../platform/http/schemas.ts';
import { MEMBERS_PAGE_SIZE_MAX } from './members.ts';
import { givenRoleSchema, ROLES_IN_DOCUMENTS } from './roles.schema.ts';
import { describeRole, listRoles, roles } from './roles.ts';

const USER_ID = 'a94d3c07-5e61-4b8a-8f2d-1c7b9e0d6a35';

const exampleMember = {
  id: 'e7b05f2c-3d98-4a61-b4c7-9f1e6d2a8053',
  tenant_id: TENANT_ID,
  role: 'ADMIN',
  user: { id: USER_ID, email: 'ada@example.com', first_name: 'Ada', last_name: 'Lovelace' },
  created_by: USER_ID,
  created_at: CREATED_AT,
};

const { id: EXAMPLE_ID, user } = exampleMember;

export const memberRecord = z
  .object({
    id: uuid('The id of the member.', EXAMPLE_ID),
    tenant_id: uuid('The id of the tenant.', TENANT_ID),
    role: z.enum(roles).meta({
      'x-extensible-enum': [...roles],
      description: `The role of the member. ${ROLES_IN_DOCUMENTS}`,
      example: exampleMember.role,
    }),
    user: z
      .object({
        id: uuid('The id of the user, which is the same in all tenants.', user.id),
        email: z
          .string()
          .meta({ description: 'The address that the invitation was sent to.', format: 'email', example: user.email }),
        first_name: z
          .string()
          .meta({ description: 'The first name that the user gave to this tenant.', example: user.first_name }),
        last_name: z.string().optional().meta({
          description: 'The last name that the user gave to this tenant. Left out: none.',
          example: user.last_name,
        }),
      })
      .meta({ id: 'User', description: 'A person, as the tenant knows them.' }),
    ...history,
    created_by: uuid('The id of the user who accepted the invitation.', user.id).optional(),
    created_at: date('When the invitation was accepted.'),
  })
  .meta({ id: 'Member', description: 'A person with access to the tenant.' });

export const memberChange = z
  .object(
    {
      role: givenRoleSchema.meta({
        description: `The new role. ${ROLES_IN_DOCUMENTS}`,
        example: 'SUPPORT',
      }),
    },
    'the body must be an object',
  )
  .meta({ id: 'UpdateMemberRequest', description: 'The new state of the member.' });

export const memberPage = pageSchema(memberRecord, 'MemberPage');

export const memberParams = z.object({
  id: givenUuid.meta({ description: 'The id of a member.', example: EXAMPLE_ID }),
});

export const memberQuery = z.object({
  ...pageQuery(MEMBERS_PAGE_SIZE_MAX),
  user_id: repeated(givenUuid, 'Only these users.', user.id),
});

const roleRecord = z
  .object({
    name: z.enum(roles).meta({
      description: 'The name of the role.',
      'x-extensible-enum': [...roles],
      example: 'SUPPORT',
    }),
    description: z.string().meta({ description: 'What the role allows.', example: describeRole('AUDITOR') }),
  })
  .meta({ id: 'Role', description: 'A role of members.' });

export const roleList = z.array(roleRecord).meta({ id: 'RoleList', description: 'A list of all roles.' });

export const roleExamples: { response: Examples } = {
  response: { all: { summary: 'All roles', value: listRoles() } },
};

export const ownerExamples: { response: Examples } = {
  response: { owner: { summary: 'Ada owns the tenant', value: { ...exampleMember, role: 'OWNER' } } },
};

const summary = 'Ada sees masks from now on';

export const memberChangeExamples: { request: Examples; response: Examples } = {
  request: { support: { summary, value: { role: 'SUPPORT' } } },
  response: { support: { summary, value: { ...exampleMember, role: 'SUPPORT', ...modified } } },
};

export const memberPageExamples: { response: Examples } = {
  response: { one: { summary: 'One member', value: { pagination: onlyPage(1), data: [exampleMember] } } },
};
