// Routes and schemas of /tenants/self/invitations. A person accepts an invitation on a page: join.routes.ts.
import { z } from 'zod';
import {
  bodyFailures,
  created,
  date,
  type Examples,
  failures,
  givenUuid,
  history,
  modified,
  onlyPage,
  pageQuery,
  pageSchema,
  TENANT_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { optionalWith } from '../../platform/base/optional.ts';
import { ADDRESS_LENGTH_MAX } from './address.ts';
import {
  createInvitation,
  deleteInvitation,
  getInvitation,
  INVITATION_HOURS,
  invitationStatuses,
  listInvitations,
  resendInvitation,
} from './invitations.ts';
import { DEFAULT_ROLE, givenRoleSchema, roles, ROLES_IN_DOCUMENTS } from './roles.ts';
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { MAILS_PER_ADDRESS_MAX, MAILS_PER_TENANT_MAX } from '../../platform/mail/mail-outbox.ts';
import { workOf } from '../access/authenticate.ts';
import { resourceRoutes } from '../access/resource.routes.ts';
import type { PeopleContext } from './context.ts';

// Schemas of /tenants/self/invitations. address.ts checks addresses.

/** What the examples of the OpenAPI document show. */
const exampleInvitation = {
  id: '6c2e9a51-7b04-4d3f-9e18-0a5d7c4b2f86',
  tenant_id: TENANT_ID,
  email: 'ada@example.com',
  role: 'ADMIN',
  status: 'PENDING',
  expires_at: '2026-11-23T18:04:05.123Z',
  ...created,
};

const { id: EXAMPLE_ID } = exampleInvitation;

const newInvitation = z
  .object(
    {
      email: z.string('must be one e-mail address').meta({
        description: `The address to invite: one address of RFC 5322, without comments and without a name, in ASCII before the @; at most ${ADDRESS_LENGTH_MAX} octets.`,
        format: 'email',
        maxLength: ADDRESS_LENGTH_MAX,
        example: exampleInvitation.email,
      }),
      role: optionalWith(givenRoleSchema, DEFAULT_ROLE).meta({
        description: `The role of the person as a member. ${ROLES_IN_DOCUMENTS} Left out: \`${DEFAULT_ROLE}\`.`,
        example: exampleInvitation.role,
      }),
    },
    'the body must be an object',
  )
  .meta({ id: 'CreateInvitationRequest', description: 'An invitation to create.' });

const invitationRecord = z
  .object({
    id: uuid('The id of the invitation.', EXAMPLE_ID),
    tenant_id: uuid('The id of the tenant that the person is invited to.', TENANT_ID),
    email: z
      .string()
      .meta({ description: 'The address that is invited.', format: 'email', example: exampleInvitation.email }),
    role: z.enum(roles).meta({
      'x-extensible-enum': [...roles],
      description: 'The role that the person gets.',
      example: exampleInvitation.role,
    }),
    status: z.enum(invitationStatuses).meta({
      'x-extensible-enum': [...invitationStatuses],
      description: '`PENDING`, or `EXPIRED` once it cannot be accepted any more. An accepted invitation is deleted.',
      example: 'PENDING',
    }),
    expires_at: date(
      `When the invitation expires: ${INVITATION_HOURS} hours after it was last sent.`,
      exampleInvitation.expires_at,
    ),
    ...history,
    modified_at: date('When it was resent last.').optional(),
  })
  .meta({ id: 'Invitation', description: 'An invitation to become a member of the tenant.' });

const invitationPage = pageSchema(invitationRecord, 'InvitationPage');

const invitationParams = z.object({
  id: givenUuid.meta({ description: 'The id of an invitation.', example: EXAMPLE_ID }),
});

const invitationQuery = z.object({
  ...pageQuery(),
  status: z
    .enum(invitationStatuses, `must be given once, as ${invitationStatuses.join(' or ')}`)
    .optional()
    .meta({ description: 'Only invitations of this status.', example: 'PENDING' }),
});

const summary = 'An invitation by mail';

const newInvitationExamples: { request: Examples; response: Examples } = {
  request: { mail: { summary, value: { email: exampleInvitation.email, role: exampleInvitation.role } } },
  response: { mail: { summary, value: exampleInvitation } },
};

const invitationExamples: { response: Examples } = { response: { mail: { summary, value: exampleInvitation } } };

const resentExamples: { response: Examples } = {
  response: {
    mail: {
      summary: 'Resent on the next day',
      value: {
        ...exampleInvitation,
        expires_at: '2026-11-24T09:30:00.000Z',
        ...modified,
      },
    },
  },
};

const invitationPageExamples: { response: Examples } = {
  response: { one: { summary: 'One invitation', value: { pagination: onlyPage(1), data: [exampleInvitation] } } },
};

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
