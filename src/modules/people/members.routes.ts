// Routes of /tenants/self/members. A person becomes a member by accepting an invitation.
import type { App } from '../../platform/http/app-type.ts';
import { resourceRoutes } from '../access/resource.routes.ts';
import type { PeopleContext } from './context.ts';
import { changeMember, deleteMember, listMembers } from './members.ts';
import {
  memberChange,
  memberChangeExamples,
  memberPage,
  memberPageExamples,
  memberParams,
  memberQuery,
  memberRecord,
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
};
