// Request and response schemas of /webhooks. webhooks.ts checks the URL and what the caller may tell a receiver.
import { z } from 'zod';
import { EVERY_EVENT, eventTypes } from '../../platform/db/event-types.ts';
import { optional } from '../../platform/base/optional.ts';
import {
  created,
  date,
  type Examples,
  givenUuid,
  history,
  modified,
  nameQuery,
  oneOf,
  onlyPage,
  pageQuery,
  pageSchema,
  repeated,
  TENANT_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { containerPath } from '../access/containers.schema.ts';
import { nameSchema } from '../access/names.ts';
import { parseContainer } from '../access/containers.ts';
import { deliveryStates } from './rows/deliveries.ts';
import { webhookStatuses } from './rows/webhooks.ts';
import { WEBHOOK_URL_LENGTH_MAX } from './webhooks.ts';

/** What the examples of the OpenAPI document show. */
export const exampleWebhook = {
  id: '6b1f8e0a-3d57-4c92-9e14-5a7c0d2b8f36',
  tenant_id: TENANT_ID,
  name: 'Orders',
  url: 'https://hooks.example.com/strongroom',
  events: ['token.created', 'token.deleted'],
  container: '/pci/high/',
  status: 'enabled' as const,
  ...created,
};

const { id: EXAMPLE_ID } = exampleWebhook;
const EXAMPLE_SECRET = `whsec_${Buffer.from('an example that signs nothing 00').toString('base64')}`;
const DELIVERY_ID = '019e2a4c-7d10-7c3e-8a51-0b6f9d2e4c78';

const urlError = `must be an https URL of at most ${WEBHOOK_URL_LENGTH_MAX} characters`;
const eventsError = `must be a list of types of events, or ["${EVERY_EVENT}"] alone`;

const given = {
  name: nameSchema.meta({ description: 'The name of the webhook, for people.', example: exampleWebhook.name }),
  url: z.string(urlError).min(1, urlError).max(WEBHOOK_URL_LENGTH_MAX, urlError).meta({
    description:
      'Where events are sent by POST: an https URL of a public host. Redirects are not followed. The addresses of the host are checked with each delivery.',
    example: exampleWebhook.url,
  }),
  events: z
    .array(
      z.enum([...eventTypes, EVERY_EVENT], `must be a type of GET /webhooks/event-types, or "${EVERY_EVENT}"`),
      eventsError,
    )
    .min(1, eventsError)
    .max(eventTypes.length, eventsError)
    .transform((list, ctx) => {
      const types = [...new Set(list)];
      if (types.length > 1 && types.includes(EVERY_EVENT)) ctx.addIssue({ code: 'custom', message: eventsError });
      return types;
    })
    .meta({
      description: `The types of events to send. \`["${EVERY_EVENT}"]\`: all, those of later versions too.`,
      example: exampleWebhook.events,
    }),
  container: containerPath.transform((text) => parseContainer(text) as string),
};

const CONTAINER =
  'Of tokens, only those in this container or below it, and with their masks. The caller must see these masks itself. Events of other things are sent as well.';

const webhookBody = z.object(
  {
    ...given,
    container: optional(given.container).meta({
      description: `${CONTAINER} Left out: tokens of all containers, without masks.`,
      example: exampleWebhook.container,
    }),
  },
  'the body must be an object',
);

export const newWebhook = webhookBody.meta({ id: 'CreateWebhookRequest', description: 'A webhook to create.' });

export const webhookChange = webhookBody.meta({
  id: 'UpdateWebhookRequest',
  description: 'The new state of the webhook, as a whole. Its secret and its status stay.',
});

export const webhookPatch = z
  .object(
    {
      name: optional(given.name).meta({ description: 'The new name.', example: exampleWebhook.name }),
      url: optional(given.url).meta({ description: 'The new URL.', example: exampleWebhook.url }),
      events: optional(given.events).meta({ description: 'The new types.', example: exampleWebhook.events }),
      container: given.container.nullish().meta({
        description: `${CONTAINER} Null: tokens of all containers, without masks.`,
        example: exampleWebhook.container,
      }),
      status: optional(z.enum(webhookStatuses, 'must be enabled or paused')).meta({
        description:
          '`paused` stops deliveries, and no event is kept for the webhook from then on. `enabled` sends what waits, and new events.',
        example: 'enabled',
      }),
    },
    'the body must be an object',
  )
  .meta({ id: 'WebhookPatch', description: 'A merge patch (RFC 7396). What is left out stays.' });

const secretMeta = {
  description: 'The secret that signs messages. Only in the answer to the request that made it.',
  format: 'password',
  example: EXAMPLE_SECRET,
};

const recordShape = {
  id: uuid('The id of the webhook.', EXAMPLE_ID),
  tenant_id: uuid('The id of the tenant that owns the webhook.', TENANT_ID),
  name: z.string().meta({ description: 'The name of the webhook.', example: exampleWebhook.name }),
  url: z.string().meta({ description: 'Where events are sent.', example: exampleWebhook.url }),
  events: z
    .array(z.string().meta({ 'x-extensible-enum': [...eventTypes, EVERY_EVENT] }))
    .meta({ description: 'The types of events that are sent.', example: exampleWebhook.events }),
  container: z.string().optional().meta({
    description: 'The container whose tokens are told of, with their masks. Left out: all, without masks.',
    example: exampleWebhook.container,
  }),
  status: z.string().meta({
    'x-extensible-enum': [...webhookStatuses],
    description: 'Whether events are sent. The vault pauses a webhook whose deliveries fail for five days.',
    example: exampleWebhook.status,
  }),
  failing_since: date('Since when no delivery succeeds. Left out: they do.').optional(),
  secret: z.string().optional().meta(secretMeta),
  previous_secret_ends_at: date('Until when the replaced secret signs too. Left out: no replaced one does.').optional(),
  ...history,
};

export const webhookRecord = z
  .object(recordShape)
  .meta({ id: 'Webhook', description: 'A URL that events of the tenant are sent to.' });

export const webhookWithSecret = z
  .object({ ...recordShape, secret: z.string().meta(secretMeta) })
  .meta({ id: 'WebhookWithSecret', description: 'A webhook, with the secret that the request made.' });

export const webhookPage = pageSchema(webhookRecord, 'WebhookPage');

export const webhookParams = z.object({
  id: givenUuid.meta({ description: 'The id of a webhook.', example: EXAMPLE_ID }),
});

export const deliveryParams = webhookParams.extend({
  delivery_id: givenUuid.meta({ description: 'The id of a delivery of the webhook.', example: DELIVERY_ID }),
});

export const webhookQuery = z.object({
  ...pageQuery(),
  id: repeated(givenUuid, 'Only these webhooks.', EXAMPLE_ID),
  name: nameQuery('Only webhooks of this name.', 'Orders*'),
});

export const deliveryQuery = z.object({
  ...pageQuery(),
  state: oneOf(deliveryStates, 'Only deliveries in this state.', 'dead'),
});

const exampleDelivery = {
  id: DELIVERY_ID,
  webhook_id: EXAMPLE_ID,
  type: 'token.created',
  state: 'delivered',
  attempts: 1,
  created_at: '2026-11-20T18:04:05.123Z',
  attempted_at: '2026-11-20T18:04:05.410Z',
  response_status: 204,
};

const waitingDelivery = {
  id: DELIVERY_ID,
  webhook_id: EXAMPLE_ID,
  type: 'token.created',
  state: 'waiting',
  attempts: 0,
  created_at: '2026-11-20T18:04:05.123Z',
  next_attempt_at: '2026-11-21T09:30:00.000Z',
};

export const deliveryRecord = z
  .object({
    id: uuid('The id of the delivery: the header `webhook-id` of each attempt, and `id` in the body.', DELIVERY_ID),
    webhook_id: uuid('The id of the webhook.', EXAMPLE_ID),
    type: z.string().meta({ description: 'The type of the event.', example: 'token.created' }),
    state: z.string().meta({
      'x-extensible-enum': [...deliveryStates],
      description: '`waiting` for its next attempt, `delivered`, or `dead`: no attempt is left.',
      example: 'delivered',
    }),
    attempts: z.int().meta({ description: 'How often it was sent, since it was made or replayed.', example: 1 }),
    created_at: date('When the change was.'),
    attempted_at: date('When it was sent last.').optional(),
    next_attempt_at: date('When it is sent next. Left out where it does not wait.').optional(),
    response_status: z.int().optional().meta({ description: 'The status of the last response.', example: 204 }),
    error: z.string().optional().meta({
      description:
        'Why the last attempt failed: `STATUS`, the code of a failed connection, or `TAMPERED`: its row, or that of its webhook, was changed in the database.',
      example: 'TIMEOUT',
    }),
  })
  .meta({ id: 'WebhookDelivery', description: 'An event on its way to a webhook.' });

export const deliveryPage = pageSchema(deliveryRecord, 'WebhookDeliveryPage');

export const eventTypeList = z
  .array(z.string().meta({ 'x-extensible-enum': [...eventTypes] }))
  .meta({ id: 'WebhookEventTypes', description: 'The types of events that a webhook may ask for.' });

const { name, url, events, container } = exampleWebhook;
const summary = 'Created and deleted cards';

export const newWebhookExamples: { request: Examples; response: Examples } = {
  request: { cards: { summary, value: { name, url, events, container } } },
  response: { cards: { summary, value: { ...exampleWebhook, secret: EXAMPLE_SECRET } } },
};

export const webhookExamples: { response: Examples } = { response: { cards: { summary, value: exampleWebhook } } };

export const webhookChangeExamples: { request: Examples; response: Examples } = {
  request: { cards: { summary, value: { name, url, events, container } } },
  response: { cards: { summary, value: { ...exampleWebhook, ...modified } } },
};

export const webhookPatchExamples: { request: Examples; response: Examples } = {
  request: { resume: { summary: 'Resume a paused webhook', value: { status: 'enabled' } } },
  response: { resume: { summary: 'Resume a paused webhook', value: { ...exampleWebhook, ...modified } } },
};

export const webhookPageExamples: { response: Examples } = {
  response: { one: { summary: 'One webhook', value: { pagination: onlyPage(1), data: [exampleWebhook] } } },
};

export const rotatedExamples: { response: Examples } = {
  response: {
    cards: {
      summary: 'Another secret',
      value: {
        ...exampleWebhook,
        secret: EXAMPLE_SECRET,
        previous_secret_ends_at: '2026-11-22T09:30:00.000Z',
        ...modified,
      },
    },
  },
};

export const deliveryExamples: { response: Examples } = {
  response: { waiting: { summary: 'To be sent', value: waitingDelivery } },
};

export const deliveryPageExamples: { response: Examples } = {
  response: { one: { summary: 'One delivery', value: { pagination: onlyPage(1), data: [exampleDelivery] } } },
};

export const eventTypeExamples: { response: Examples } = {
  response: { all: { summary: 'All types', value: [...eventTypes] } },
};
