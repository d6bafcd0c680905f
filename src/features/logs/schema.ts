// Wire shapes of /logs.
import { z } from 'zod';
import { entityTypes } from '../../audit/entities.ts';
import { APPLICATION_ID, cardTokenId, CREATED_AT, TENANT_ID } from '../../http/openapi-examples.ts';
import { cursorQuery, onlyPage, pageSchema } from '../../http/pagination.ts';
import type { Examples } from '../../http/schemas.ts';
import { parseDate } from '../../vault/dates.ts';
import { isStorableText } from '../../vault/json.ts';

/** A time that no record can be between: what is finer than a millisecond counts as the next one, for both ends of an interval. */
const boundary = (description: string) =>
  z
    .string('must be given once')
    .transform((text, ctx) => {
      // A plus that was not encoded arrives as a space.
      const date = parseDate(text.replace(/ (?=\d{2}:?\d{2}$)/, '+'), 'up');
      if (date === undefined) ctx.addIssue('must be a date such as 2026-11-20T18:04:05Z');
      return date ?? z.NEVER;
    })
    .optional()
    .meta({ description, type: 'string', format: 'date-time', example: CREATED_AT });

export const logQuery = z.object({
  ...cursorQuery(),
  entity_type: z
    .string('must be given once')
    .regex(/^[A-Za-z_]{1,100}$/, 'must be letters and underscores')
    .optional()
    .meta({ description: 'Only entries about this kind of entity.', example: 'card' }),
  entity_id: z
    .string('must be given once')
    .min(1)
    .max(400)
    .refine(isStorableText, 'must be a text without NUL')
    .optional()
    .meta({ description: 'Only entries about this entity.', example: cardTokenId }),
  start_date: boundary('Only entries of this time and later.'),
  end_date: boundary('Only entries of before this time.'),
});

const kinds = entityTypes.map(({ value }) => value);

export const logRecord = z
  .object({
    tenant_id: z.string().meta({ description: 'The tenant that owns the entity.', format: 'uuid', example: TENANT_ID }),
    actor_id: z.string().optional().meta({
      description: 'Who did it. Left out for the operator and the vault itself.',
      format: 'uuid',
      example: APPLICATION_ID,
    }),
    actor_type: z
      .string()
      .optional()
      .meta({
        description: 'What kind of actor that is.',
        'x-extensible-enum': ['application', 'user', 'operator', 'system'],
        example: 'application',
      }),
    entity_type: z
      .string()
      .meta({ description: 'A token type, or another kind of entity.', 'x-extensible-enum': kinds, example: 'card' }),
    entity_id: z.string().meta({ description: 'The id of the entity.', example: cardTokenId }),
    operation: z.string().meta({
      description: 'What was done.',
      'x-extensible-enum': ['create', 'update', 'read', 'delete', 'use'],
      example: 'read',
    }),
    message: z.string().meta({ description: 'The same in words. Never holds a value.', example: 'Token retrieved' }),
    created_at: z.string().meta({ description: 'When it was done.', format: 'date-time', example: CREATED_AT }),
  })
  .meta({ id: 'Log', description: 'One operation on one entity.' });

export const logPage = pageSchema(logRecord, 'LogPage');

export const logExamples: { response: Examples } = {
  response: {
    page: {
      summary: 'A page',
      value: {
        pagination: onlyPage(1),
        data: [
          {
            tenant_id: TENANT_ID,
            actor_id: APPLICATION_ID,
            actor_type: 'application',
            entity_type: 'card',
            entity_id: cardTokenId,
            operation: 'read',
            message: 'Token retrieved',
            created_at: CREATED_AT,
          },
        ],
      },
    },
  },
};

const entityType = z
  .object({
    display_name: z.string().meta({ description: 'A name for a person.', example: 'Card' }),
    value: z.string().meta({ description: 'What `entity_type` of a log says.', example: 'card' }),
  })
  .meta({ id: 'EntityType' });

export const entityTypeList = z.array(entityType);

export const entityTypeExamples: { response: Examples } = {
  response: { all: { summary: 'All kinds', value: entityTypes } },
};
