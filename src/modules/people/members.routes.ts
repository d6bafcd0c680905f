// Routes of /tenants/self/members. A person becomes a member by accepting an invitation.
import { commonFailures, failures } from '../../platform/http/schemas.ts';
import type { App } from '../../platform/http/app-type.ts';
import { workOf } from '../access/authenticate.ts';
import { resourceRoutes } from '../access/resource.routes.ts';
import type { PeopleContext } from './context.ts';
import { changeMember, deleteMember, getOwner, listMembers } from './members.ts';
import { listRoles } from './roles.ts';
import {
  memberChange,
  memberChangeExamples,
  memberPage,
  memberPageExamples,
  memberParams,
  memberQuery,
  memberRecord,
  ownerExamples,
  roleExamples,
  roleList,
} from './members.schema.ts';

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
