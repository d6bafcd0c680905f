// Wire shapes of /tenants/self/invitations. Addresses are looked at in people/address.ts.
import { z } from 'zod';
import { APPLICATION_ID, CREATED_AT, exampleInvitation, TENANT_ID } from '../../http/openapi-examples.ts';
import { onlyPage, pageQuery, pageSchema } from '../../http/pagination.ts';
import type { Examples } from '../../http/schemas.ts';
import { ADDRESS_LENGTH_MAX } from '../../people/address.ts';
import { invitationStatuses } from '../../people/invitations.ts';

const { id: EXAMPLE_ID } = exampleInvitation;

const date = (description: string, example = CREATED_AT) =>
  z.string().meta({ description, format: 'date-time', example });

const uuid = (description: string, example: string) => z.string().meta({ description, format: 'uuid', example });

/** However it is spelled, it is one id. */
const givenUuid = z.guid('must be a UUID').toLowerCase();

export const newInvitation = z
  .object(
    {
      email: z.string('must be one e-mail address').meta({
        description: `The address to invite: one address of RFC 5322, without comments and without a name; at most ${ADDRESS_LENGTH_MAX} octets.`,
        format: 'email',
        maxLength: ADDRESS_LENGTH_MAX,
        example: exampleInvitation.email,
      }),
    },
    'the body must be an object',
  )
  .meta({ id: 'CreateInvitationRequest', description: 'An invitation to create.' });

export const invitationRecord = z
  .object({
    id: uuid('The id of the invitation.', EXAMPLE_ID),
    tenant_id: uuid('The id of the tenant that the person is invited to.', TENANT_ID),
    email: z
      .string()
      .meta({ description: 'The address that is invited.', format: 'email', example: exampleInvitation.email }),
    status: z.enum(invitationStatuses).meta({
      'x-extensible-enum': [...invitationStatuses],
      description: '`PENDING`, or `EXPIRED` once it cannot be accepted any more. An accepted invitation is deleted.',
      example: 'PENDING',
    }),
    expires_at: date('When the invitation expires: 72 hours after it was last sent.', exampleInvitation.expires_at),
    created_by: uuid(
      'The id of the application or user that created it. Left out where the operator did.',
      APPLICATION_ID,
    ).optional(),
    created_at: date('When it was created.'),
    modified_by: uuid('The id of the application or user that resent it last.', APPLICATION_ID).optional(),
    modified_at: date('When it was resent last.').optional(),
  })
  .meta({ id: 'Invitation', description: 'An invitation to become a member of the tenant.' });

export const invitationPage = pageSchema(invitationRecord, 'InvitationPage');

export const invitationParams = z.object({
  id: givenUuid.meta({ description: 'The id of an invitation.', example: EXAMPLE_ID }),
});

export const invitationQuery = z.object({
  ...pageQuery(),
  status: z
    .enum(invitationStatuses, `must be given once, as ${invitationStatuses.join(' or ')}`)
    .optional()
    .meta({ description: 'Only invitations of this status.', example: 'PENDING' }),
});

const summary = 'An invitation by mail';

export const newInvitationExamples: { request: Examples; response: Examples } = {
  request: { mail: { summary, value: { email: exampleInvitation.email } } },
  response: { mail: { summary, value: exampleInvitation } },
};

export const invitationExamples: { response: Examples } = { response: { mail: { summary, value: exampleInvitation } } };

export const resentExamples: { response: Examples } = {
  response: {
    mail: {
      summary: 'Resent on the next day',
      value: {
        ...exampleInvitation,
        expires_at: '2026-11-24T09:30:00.000Z',
        modified_by: APPLICATION_ID,
        modified_at: '2026-11-21T09:30:00.000Z',
      },
    },
  },
};

export const invitationPageExamples: { response: Examples } = {
  response: { one: { summary: 'One invitation', value: { pagination: onlyPage(1), data: [exampleInvitation] } } },
};
