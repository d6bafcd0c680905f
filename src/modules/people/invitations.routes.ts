// Routes of /tenants/self/invitations. A person accepts an invitation on a page: join.routes.ts.
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { bodyFailures, failures } from '../../platform/http/schemas.ts';
import { MAILS_PER_ADDRESS_MAX, MAILS_PER_TENANT_MAX } from '../../platform/mail/mail-outbox.ts';
import { workOf } from '../access/authenticate.ts';
import { resourceRoutes } from '../access/resource.routes.ts';
import type { PeopleContext } from './context.ts';
import {
  createInvitation,
  deleteInvitation,
  getInvitation,
  INVITATION_HOURS,
  listInvitations,
  resendInvitation,
} from './invitations.ts';
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
} from './invitations.schema.ts';

const path = '/tenants/self/invitations';

export const invitationsRoutes = (app: App, ctx: PeopleContext): void => {
  const routes = resourceRoutes(app, ctx, {
    path,
    noun: 'invitation',
    plural: 'invitations',
    permission: 'tenant:invitation',
    params: invitationParams,
    record: invitationRecord,
  });
  routes.create({
    description: `Invites an address to become a member of the tenant, and sends a link to it. The link works once, within ${INVITATION_HOURS} hours. The response does not wait for the mail server. An address may be invited several times; the address of a member is a 409. A tenant may send ${MAILS_PER_ADDRESS_MAX} mails an hour to one address, and ${MAILS_PER_TENANT_MAX} in all; beyond, the response is a 429. Without a mail server it is a 503.`,
    body: newInvitation,
    answer: 'The invitation. Only the mail has its link.',
    examples: newInvitationExamples,
    run: createInvitation,
  });
  app.post(
    `${path}/:id/resend`,
    {
      config: { permission: 'tenant:invitation:create' },
      schema: {
        operationId: 'resendInvitation',
        summary: 'Resend an invitation',
        description: `Sends another link, which works for ${INVITATION_HOURS} hours from now, and ends all earlier links of the invitation. An expired invitation is \`PENDING\` again.\n\nPermission: \`tenant:invitation:create\` and \`tenant:invitation:update\`.`,
        tags: ['Invitations'],
        params: invitationParams,
        answer: 'The changed invitation.',
        alsoNeeds: ['tenant:invitation:update'],
        examples: resentExamples,
        response: { 200: invitationRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await resendInvitation(ctx, workOf(request), request.params.id)),
  );

  routes.list({
    description: 'Lists the invitations of the tenant that are not accepted, newest first.',
    query: invitationQuery,
    filter: ({ status }) => ({ status }),
    page: invitationPage,
    examples: invitationPageExamples,
    run: listInvitations,
  });
  routes.read({
    description: 'Reads one invitation.',
    examples: invitationExamples,
    run: getInvitation,
  });
  routes.delete({
    description: 'Deletes an invitation and ends its links. A mail that waits to be sent is not sent.',
    run: deleteInvitation,
  });
};
