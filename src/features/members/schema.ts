// Wire shapes of /tenants/self/members.
import { z } from 'zod';
import { CREATED_AT, exampleMember, TENANT_ID } from '../../http/openapi-examples.ts';
import { onlyPage, pageQuery, pageSchema, repeated } from '../../http/pagination.ts';
import type { Examples } from '../../http/schemas.ts';
import { MEMBERS_PAGE_SIZE_MAX } from '../../people/members.ts';

const { id: EXAMPLE_ID, user } = exampleMember;

const date = (description: string) => z.string().meta({ description, format: 'date-time', example: CREATED_AT });

const uuid = (description: string, example: string) => z.string().meta({ description, format: 'uuid', example });

/** However it is spelled, it is one id. */
const givenUuid = z.guid('must be a UUID').toLowerCase();

const memberRecord = z
  .object({
    id: uuid('The id of the member.', EXAMPLE_ID),
    tenant_id: uuid('The id of the tenant.', TENANT_ID),
    role: z.enum(['OWNER', 'ADMIN']).meta({
      'x-extensible-enum': ['OWNER', 'ADMIN'],
      description: 'The role of the member. `OWNER` and `ADMIN` both have full access; an `OWNER` cannot be deleted.',
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
    created_by: uuid('The id of the user who accepted the invitation.', user.id).optional(),
    created_at: date('When the invitation was accepted.'),
    modified_by: uuid('The id of the application or user that changed it last.', user.id).optional(),
    modified_at: date('When it was changed last.').optional(),
  })
  .meta({ id: 'Member', description: 'A person with full access to the tenant.' });

export const memberPage = pageSchema(memberRecord, 'MemberPage');

export const memberParams = z.object({
  id: givenUuid.meta({ description: 'The id of a member.', example: EXAMPLE_ID }),
});

export const memberQuery = z.object({
  ...pageQuery(MEMBERS_PAGE_SIZE_MAX),
  user_id: repeated(givenUuid, 'Only these users.', user.id),
});

export const memberPageExamples: { response: Examples } = {
  response: { one: { summary: 'One member', value: { pagination: onlyPage(1), data: [exampleMember] } } },
};
