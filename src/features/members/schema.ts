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
    id: uuid('The member.', EXAMPLE_ID),
    tenant_id: uuid('The tenant that they are a member of.', TENANT_ID),
    role: z.enum(['OWNER', 'ADMIN']).meta({
      'x-extensible-enum': ['OWNER', 'ADMIN'],
      description: 'Both may do everything in the tenant. An `OWNER` cannot be deleted.',
      example: exampleMember.role,
    }),
    user: z
      .object({
        id: uuid('The person: the same in every tenant that they are a member of.', user.id),
        email: z.string().meta({ description: 'As they were invited.', format: 'email', example: user.email }),
        first_name: z.string().meta({ description: 'As they gave it to this tenant.', example: user.first_name }),
        last_name: z.string().optional().meta({ description: 'Left out: they gave none.', example: user.last_name }),
      })
      .meta({ id: 'User', description: 'A person, as a tenant knows them.' }),
    created_by: uuid('The person who accepted.', user.id).optional(),
    created_at: date('When they accepted.'),
    modified_by: uuid('Who changed it last.', user.id).optional(),
    modified_at: date('When it was changed last.').optional(),
  })
  .meta({ id: 'Member', description: 'Somebody who may do everything in the tenant.' });

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
