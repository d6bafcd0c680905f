// /tenants/self/members: listed and removed. They come by accepting an invitation.
import type { Context } from '../../context.ts';
import { answer } from '../../http/answers.ts';
import type { App } from '../../http/app-type.ts';
import { callerOf } from '../../http/authenticate.ts';
import { pageOf } from '../../http/pagination.ts';
import { commonFailures, failures, noContent } from '../../http/schemas.ts';
import { deleteMember, listMembers } from '../../people/members.ts';
import { memberPage, memberPageExamples, memberParams, memberQuery } from './schema.ts';

const tags = ['Members'];

export const membersRoutes = (app: App, ctx: Context): void => {
  app.get(
    '/tenants/self/members',
    {
      config: { permission: 'tenant:member:read' },
      schema: {
        operationId: 'listMembers',
        summary: 'List members',
        description: 'Lists the members of the tenant, newest first.\n\nPermission: `tenant:member:read`.',
        tags,
        querystring: memberQuery,
        answer: 'A page of members.',
        examples: memberPageExamples,
        response: { 200: memberPage, ...failures(...commonFailures) },
      },
    },
    async (request) => {
      const { query } = request;
      return listMembers(ctx, callerOf(request), { user_ids: query.user_id, page: pageOf(query) });
    },
  );

  app.delete(
    '/tenants/self/members/:id',
    {
      config: { permission: 'tenant:member:delete' },
      schema: {
        operationId: 'deleteMember',
        summary: 'Remove a member',
        description:
          'Ends all access of a member to the tenant, at once and in every process of the vault: their sessions, invitations to their address, and invitations that they created. Other records that they created stay. The owner cannot be removed: 422.\n\nPermission: `tenant:member:delete`.',
        tags,
        params: memberParams,
        answer: 'The member is removed.',
        response: { 204: noContent, ...failures(...commonFailures, 404, 422) },
      },
    },
    async (request, reply) => answer(reply, await deleteMember(ctx, callerOf(request), request.params.id)),
  );
};
