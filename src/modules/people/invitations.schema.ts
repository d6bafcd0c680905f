// Schemas of /tenants/self/invitations. address.ts checks addresses.
import { z } from 'zod';
import { onlyPage, pageQuery, pageSchema } from '../../platform/http/list-parameters.ts';
import {
  date,
  type Examples,
  givenUuid,
  history,
  uuid,
  created,
  modified,
  TENANT_ID,
} from '../../platform/http/schemas.ts';
import { optionalWith } from '../../platform/base/optional.ts';
import { ADDRESS_LENGTH_MAX } from './address.ts';
import { INVITATION_HOURS, invitationStatuses } from './invitations.ts';
import { givenRoleSchema, ROLES_IN_DOCUMENTS } from './roles.schema.ts';
import { DEFAULT_ROLE, roles } from './roles.ts';

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

export const newInvitation = z
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

export const invitationRecord = z
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
  request: { mail: { summary, value: { email: exampleInvitation.email, role: exampleInvitation.role } } },
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
        ...modified,
      },
    },
  },
};

export const invitationPageExamples: { response: Examples } = {
  response: { one: { summary: 'One invitation', value: { pagination: onlyPage(1), data: [exampleInvitation] } } },
};
