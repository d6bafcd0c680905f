// Routes and schemas of /tenants/self/members. A person becomes a member by accepting an invitation.
import { z } from 'zod';
import {
  commonFailures,
  CREATED_AT,
  date,
  type Examples,
  failures,
  givenUuid,
  history,
  modified,
  onlyPage,
  pageQuery,
  pageSchema,
  repeated,
  TENANT_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { changeMember, deleteMember, getOwner, listMembers, MEMBERS_PAGE_SIZE_MAX } from './members.ts';
import { describeRole, givenRoleSchema, listRoles, roles, ROLES_IN_DOCUMENTS } from './roles.ts';
import type { App } from '../../platform/http/app-type.ts';
import { workOf } from '../access/authenticate.ts';
import { resourceRoutes } from '../access/resource.routes.ts';
import type { PeopleContext } from './context.ts';

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

const memberRecord = z
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

const memberChange = z
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

const memberPage = pageSchema(memberRecord, 'MemberPage');

const memberParams = z.object({
  id: givenUuid.meta({ description: 'The id of a member.', example: EXAMPLE_ID }),
});

const memberQuery = z.object({
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

const roleList = z.array(roleRecord).meta({ id: 'RoleList', description: 'A list of all roles.' });

const roleExamples: { response: Examples } = {
  response: { all: { summary: 'All roles', value: listRoles() } },
};

const ownerExamples: { response: Examples } = {
  response: { owner: { summary: 'Ada owns the tenant', value: { ...exampleMember, role: 'OWNER' } } },
};

const summary = 'Ada sees masks from now on';

const memberChangeExamples: { request: Examples; response: Examples } = {
  request: { support: { summary, value: { role: 'SUPPORT' } } },
  response: { support: { summary, value: { ...exampleMember, role: 'SUPPORT', ...modified } } },
};

const memberPageExamples: { response: Examples } = {
  response: { one: { summary: 'One member', value: { pagination: onlyPage(1), data: [exampleMember] } } },
};

export const membersRoutes = (app: App, ctx: PeopleContext): void => {
  const routes = resourceRoutes(app, ctx, {
    path: '/tenants/self/members',
    noun: 'member',
    plural: 'members',
    permission: 'tenant:member',
    params: memberParams,
    record: memberRecord,
  });
  routes.list({
    description: 'Lists the members of the tenant, newest first.',
    query: memberQuery,
    filter: ({ user_id }) => ({ user_ids: user_id }),
    page: memberPage,
    examples: memberPageExamples,
    run: listMembers,
  });
  routes.change({
    description:
      'Gives a member another role, at once and in all processes of the vault. The role of the owner cannot be changed: 422.',
    body: memberChange,
    examples: memberChangeExamples,
    run: changeMember,
  });
  routes.delete({
    description:
      'Ends all access of a member to the tenant, at once and in all processes of the vault: their sessions, invitations to their address, and invitations that they created. Other records that they created stay. The owner cannot be removed: 422.',
    failures: [422],
    run: deleteMember,
  });
  app.get(
    '/tenants/self/owner',
    {
      config: { permission: 'tenant:member:read' },
      schema: {
        operationId: 'getOwner',
        summary: 'Read the owner',
        description:
          'Reads the member who owns the tenant. A 404 where the operator has named none.\n\nPermission: `tenant:member:read`.',
        tags: ['Members'],
        answer: 'The owner.',
        examples: ownerExamples,
        response: { 200: memberRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getOwner(ctx, workOf(request)),
  );
  app.get(
    '/roles',
    {
      config: { permission: 'authenticated' },
      schema: {
        operationId: 'listRoles',
        summary: 'List roles',
        description: 'Lists the roles that members have, in a plain array.\n\nPermission: none beyond a valid key.',
        tags: ['Members'],
        answer: 'The roles.',
        examples: roleExamples,
        response: { 200: roleList, ...failures(...commonFailures) },
      },
    },
    async () => listRoles(),
  );
};
