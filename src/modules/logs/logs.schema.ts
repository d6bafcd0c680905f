// Schemas of /logs.
import { z } from 'zod';
import { TOKEN_ID_LENGTH_MAX } from '../access/token-id.ts';
import { actorTypes, disclosures, entityTypes, operations, outcomes } from '../../platform/db/audit-record.ts';
import {
  APPLICATION_ID,
  boundary,
  CARD_TOKEN_ID,
  CREATED_AT,
  cursorQuery,
  date,
  type Examples,
  oneOf,
  oneText,
  oneUuid,
  onlyPage,
  otelTraceId,
  pageSchema,
  PROXY_ID,
  REACTOR_ID,
  TENANT_ID,
  TRACE_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { TRACE_ID_LENGTH_MAX } from '../../platform/http/trace.ts';
import { isStorableText, NOT_STORABLE } from '../../platform/json/json.ts';

export const actorType = z
  .string()
  .optional()
  .meta({
    description: 'The kind of actor. Left out for anonymous clients.',
    'x-extensible-enum': [...actorTypes],
    example: 'application',
  });

export const reasonShown = z.string().optional().meta({
  description:
    'Why a member asked to see the value, in their words. Left out where the tenant does not ask (`reveal_reason`).',
  example: 'Ticket 4711: the customer asks what is stored',
});

/** The longest host name, with a port. */
const HOST_LENGTH_MAX = 260;

export const logQuery = z.object({
  ...cursorQuery('WyIwMTkzYTVmMC0wMDAwLTcwMDAtODAwMC0wMDAwMDAwMDAwMDAiLCIwIl0'),
  entity_type: z
    .string('must be given once')
    .regex(/^[A-Za-z_]{1,100}$/, 'must be letters and underscores')
    .optional()
    .meta({ description: 'Only entries about this kind of entity.', example: 'card' }),
  entity_id: z
    .string('must be given once')
    .min(1)
    .max(TOKEN_ID_LENGTH_MAX)
    .refine(isStorableText, NOT_STORABLE)
    .optional()
    .meta({ description: 'Only entries about this entity.', example: CARD_TOKEN_ID }),
  actor_id: oneUuid('Only entries about what this application or user did.', APPLICATION_ID),
  operation: oneOf(operations, 'Only entries with this operation.', 'read'),
  outcome: oneOf(outcomes, 'Only entries with this outcome.', 'refused'),
  disclosure: oneOf(disclosures, 'Only entries that disclosed values in this way.', 'revealed'),
  application_id: oneUuid(
    'Only entries of requests that came with a key of this application, or of a session that it made, also of what code did for them.',
    APPLICATION_ID,
  ),
  trace_id: oneText(TRACE_ID_LENGTH_MAX, 'Only entries of requests with this `SVC-TRACE-ID`.', TRACE_ID),
  destination_host: oneText(
    HOST_LENGTH_MAX,
    'Only entries of requests that were sent to this host, with the port where it is not 443.',
    'api.example.com',
  ),
  start_date: boundary('Only entries from this time on.'),
  end_date: boundary('Only entries from before this time.'),
});

const kinds = entityTypes.map(({ value }) => value);

const logRecord = z
  .object({
    id: uuid(
      'The id of the row of the log, as `logs prove` takes it. The entries of one row have the same.',
      '0193a5f0-aaaa-7000-8000-000000000000',
    ),
    tenant_id: uuid('The id of the tenant that owns the entity.', TENANT_ID),
    actor_id: uuid(
      'The id of the application or user that did it. Left out for the operator, the system and anonymous clients.',
      APPLICATION_ID,
    ).optional(),
    actor_type: actorType,
    actor_name: z.string().optional().meta({
      description:
        'The name that the application or user has now. Left out for others, and where the application is deleted or the user has left.',
      example: 'Checkout server',
    }),
    application_id: uuid(
      'The id of the application that asked: of the key of the request, or the one that made the session. Left out for users and anonymous clients.',
      APPLICATION_ID,
    ).optional(),
    code_application_id: uuid(
      'The id of the application whose rights code had, or whose rights an open proxy gave to an anonymous client. It is then the actor.',
      APPLICATION_ID,
    ).optional(),
    entity_type: z.string().meta({
      description: 'The kind of the entity: a token type, or another kind.',
      'x-extensible-enum': kinds,
      example: 'card',
    }),
    entity_id: z.string().meta({
      description: 'The id of the entity. For a request of the proxy without a stored proxy, the id of the tenant.',
      example: CARD_TOKEN_ID,
    }),
    entity_name: z.string().optional().meta({
      description:
        'The name that the entity has now: an application, reactor, formula, proxy or member. Left out for others, and always for tokens.',
      example: 'Checkout server',
    }),
    is_list: z.literal(true).optional().meta({
      description: 'The entry is about a page of tokens that was listed or searched. Left out for others.',
      example: true,
    }),
    entity_ids: z
      .array(z.string())
      .optional()
      .meta({
        description:
          'The ids of all tokens of a page that showed no value, or that a member saw in the console: one entry for the page.',
        example: [CARD_TOKEN_ID],
      }),
    operation: z
      .string()
      .meta({ description: 'The operation that was done.', 'x-extensible-enum': [...operations], example: 'read' }),
    message: z
      .string()
      .meta({ description: 'The operation in words. It never contains a value.', example: 'Token retrieved' }),
    reason: reasonShown,
    outcome: z.string().meta({
      description:
        'How the operation ended. `refused`: a permission was missing. `failed`: a request failed after its use of tokens was logged. `replayed`: the server repeated an earlier response under its idempotency key.',
      'x-extensible-enum': [...outcomes],
      example: 'success',
    }),
    disclosure: z
      .string()
      .optional()
      .meta({
        description:
          'How much of stored values left the vault: nothing, the masked value, the value, or the value to code or a destination, unseen by the caller.',
        'x-extensible-enum': [...disclosures],
        example: 'masked',
      }),
    reactor_id: uuid('The id of the reactor whose code did it.', REACTOR_ID).optional(),
    proxy_id: uuid('The id of the stored proxy that was used.', PROXY_ID).optional(),
    destination_host: z.string().optional().meta({
      description: 'The host that the request was sent to, with the port where it is not 443.',
      example: 'api.example.com',
    }),
    trace_id: z.string().optional().meta({ description: 'The `SVC-TRACE-ID` of the request.', example: TRACE_ID }),
    otel_trace_id: otelTraceId.optional(),
    ip: z
      .string()
      .optional()
      .meta({ description: 'The IP address that the request came from.', example: '203.0.113.7' }),
    created_at: date('When the operation was done.'),
  })
  .meta({ id: 'Log', description: 'An entry of the log: one operation on one entity, or on a page of them.' });

export const logPage = pageSchema(logRecord, 'LogPage');

export const logExamples: { response: Examples } = {
  response: {
    page: {
      summary: 'A page',
      value: {
        pagination: onlyPage(1),
        data: [
          {
            id: '0193a5f0-aaaa-7000-8000-000000000000',
            tenant_id: TENANT_ID,
            actor_id: APPLICATION_ID,
            actor_type: 'application',
            actor_name: 'Checkout server',
            application_id: APPLICATION_ID,
            entity_type: 'card',
            entity_id: CARD_TOKEN_ID,
            operation: 'read',
            message: 'Token retrieved',
            outcome: 'success',
            disclosure: 'masked',
            trace_id: TRACE_ID,
            ip: '203.0.113.7',
            created_at: CREATED_AT,
          },
        ],
      },
    },
  },
};

const entityType = z
  .object({
    display_name: z.string().meta({ description: 'The name of the kind, for people.', example: 'Card' }),
    value: z.string().meta({ description: 'The name of the kind in `entity_type` of a log.', example: 'card' }),
  })
  .meta({ id: 'EntityType', description: 'A kind of entity in the log.' });

export const entityTypeList = z.array(entityType);

export const entityTypeExamples: { response: Examples } = {
  response: { all: { summary: 'All kinds', value: entityTypes } },
};
