// /tenants/self/invitations: made, sent again, listed, read, removed. Accepted they are on a page of their own.
import type { Context } from '../../context.ts';
import { answer } from '../../http/answers.ts';
import type { App } from '../../http/app-type.ts';
import { callerOf } from '../../http/authenticate.ts';
import { pageOf } from '../../http/pagination.ts';
import { bodyFailures, commonFailures, failures, noContent } from '../../http/schemas.ts';
import {
  createInvitation,
  deleteInvitation,
  getInvitation,
  listInvitations,
  resendInvitation,
} from '../../people/invitations.ts';
import {
  invitationExamples,
  invitationPage,
  invitationPageExamples,
  invitationParams,
  invitationQuery,
  invitationRecord,
  newInvitation,
  newInvitationExamples,
  resentExamples,
} from './schema.ts';

const tags = ['Invitations'];
const path = '/tenants/self/invitations';

export const invitationsRoutes = (app: App, ctx: Context): void => {
  app.post(
    path,
    {
      config: { permission: 'tenant:invitation:create', creates: path },
      schema: {
        operationId: 'createInvitation',
        summary: 'Create an invitation',
        description:
          'Invites an address to become a member of the tenant, and sends a link to it. The link works once, within 72 hours. The answer does not wait for the mail server. An address may be invited several times; the address of a member is a 409. A tenant may send ten mails an hour to one address, and 200 in all: beyond that the answer is 429. Without a mail server it is 503.\n\nPermission: `tenant:invitation:create`.',
        tags,
        body: newInvitation,
        answer: 'The invitation. Only the mail has its link.',
        examples: newInvitationExamples,
        response: { 201: invitationRecord, ...failures(...bodyFailures) },
      },
    },
    async (request, reply) => answer(reply, await createInvitation(ctx, callerOf(request), request.body)),
  );

  app.post(
    `${path}/:id/resend`,
    {
      config: { permission: 'tenant:invitation:create' },
      schema: {
        operationId: 'resendInvitation',
        summary: 'Resend an invitation',
        description:
          'Sends another link, which works within 72 hours from now, and ends all earlier links of the invitation. An expired invitation is `PENDING` again.\n\nPermission: `tenant:invitation:create` and `tenant:invitation:update`.',
        tags,
        params: invitationParams,
        answer: 'The changed invitation.',
        alsoNeeds: ['tenant:invitation:update'],
        examples: resentExamples,
        response: { 200: invitationRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await resendInvitation(ctx, callerOf(request), request.params.id)),
  );

  app.get(
    path,
    {
      config: { permission: 'tenant:invitation:read' },
      schema: {
        operationId: 'listInvitations',
        summary: 'List invitations',
        description:
          'Lists the invitations of the tenant that are not accepted, newest first.\n\nPermission: `tenant:invitation:read`.',
        tags,
        querystring: invitationQuery,
        answer: 'A page of invitations.',
        examples: invitationPageExamples,
        response: { 200: invitationPage, ...failures(...commonFailures) },
      },
    },
    async (request) => {
      const { query } = request;
      return listInvitations(ctx, callerOf(request), { status: query.status, page: pageOf(query) });
    },
  );

  app.get(
    `${path}/:id`,
    {
      config: { permission: 'tenant:invitation:read' },
      schema: {
        operationId: 'getInvitation',
        summary: 'Read an invitation',
        description: 'Reads one invitation.\n\nPermission: `tenant:invitation:read`.',
        tags,
        params: invitationParams,
        answer: 'The invitation.',
        examples: invitationExamples,
        response: { 200: invitationRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getInvitation(ctx, callerOf(request), request.params.id),
  );

  app.delete(
    `${path}/:id`,
    {
      config: { permission: 'tenant:invitation:delete' },
      schema: {
        operationId: 'deleteInvitation',
        summary: 'Delete an invitation',
        description:
          'Deletes an invitation and ends its links. A mail that waits to be sent is not sent.\n\nPermission: `tenant:invitation:delete`.',
        tags,
        params: invitationParams,
        answer: 'The invitation is deleted.',
        response: { 204: noContent, ...failures(...commonFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await deleteInvitation(ctx, callerOf(request), request.params.id)),
  );
};
