// Routes of /webhooks, and of their deliveries.
import { z } from 'zod';
import { describeEvent, eventTypes } from '../../platform/db/event-types.ts';
import { pageOf } from '../../platform/base/pagination.ts';
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { commonFailures, failures } from '../../platform/http/schemas.ts';
import { workOf } from '../access/authenticate.ts';
import { resourceRoutes } from '../access/resource.routes.ts';
import type { WebhooksContext } from './context.ts';
import { listDeliveries, replayDelivery } from './deliveries.ts';
import {
  changeWebhook,
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  patchWebhook,
  pingWebhook,
  rotateSecret,
} from './webhooks.ts';
import {
  deliveryExamples,
  deliveryPage,
  deliveryPageExamples,
  deliveryParams,
  deliveryQuery,
  deliveryRecord,
  eventTypeExamples,
  eventTypeList,
  newWebhook,
  newWebhookExamples,
  rotatedExamples,
  webhookChange,
  webhookChangeExamples,
  webhookExamples,
  webhookPage,
  webhookPageExamples,
  webhookParams,
  webhookPatch,
  webhookPatchExamples,
  webhookQuery,
  webhookRecord,
  webhookWithSecret,
} from './webhooks.schema.ts';

const EVENT_LIST = eventTypes.map((type) => `- \`${type}\`: ${describeEvent(type)}`).join('\n');

export const webhooksRoutes = (app: App, ctx: WebhooksContext): void => {
  const routes = resourceRoutes(app, ctx, {
    path: '/webhooks',
    noun: 'webhook',
    plural: 'webhooks',
    permission: 'webhook',
    params: webhookParams,
    record: webhookRecord,
  });
  routes.create({
    description:
      'Creates a webhook. Events are sent to its URL by POST, each at least once, signed as Standard Webhooks says. URL and secret are encrypted at rest. A destination that is not public is refused. One more than a tenant may have is a 409.',
    body: newWebhook,
    created: webhookWithSecret,
    answer: 'The webhook, with its secret. No other answer shows the secret.',
    examples: newWebhookExamples,
    idempotency: 'brief',
    run: createWebhook,
  });
  routes.list({
    description: 'Lists the webhooks of the tenant, newest first.',
    query: webhookQuery,
    filter: ({ id, name }) => ({ ids: id, name }),
    page: webhookPage,
    examples: webhookPageExamples,
    failures: [413],
    run: listWebhooks,
  });
  app.get(
    '/webhooks/event-types',
    {
      config: { permission: 'webhook:read' },
      schema: {
        operationId: 'listWebhookEventTypes',
        summary: 'List the types of events',
        description: `Lists the types of events that a webhook may ask for:\n\n${EVENT_LIST}\n\nPermission: \`webhook:read\`.`,
        tags: ['Webhooks'],
        querystring: z.object({}),
        answer: 'The types.',
        examples: eventTypeExamples,
        response: { 200: eventTypeList, ...failures(...commonFailures) },
      },
    },
    async () => [...eventTypes],
  );
  routes.read({
    description: 'Reads one webhook, without its secret.',
    examples: webhookExamples,
    run: getWebhook,
  });
  routes.change({
    description:
      'Replaces a webhook as a whole, except its secret and its status. The caller must see the masks that it sends before and after the change.',
    body: webhookChange,
    examples: webhookChangeExamples,
    idempotency: 'brief',
    run: changeWebhook,
  });
  routes.patch({
    description:
      'Changes parts of a webhook by a JSON merge patch (RFC 7396): what is left out stays. `status` pauses and resumes it. The rules of a whole change hold.',
    body: webhookPatch,
    examples: webhookPatchExamples,
    idempotency: 'brief',
    run: patchWebhook,
  });
  routes.delete({
    description: 'Deletes a webhook. What waits for it is not sent.',
    run: deleteWebhook,
  });
  app.post(
    '/webhooks/:id/rotate-secret',
    {
      config: { permission: 'webhook:update', idempotency: 'brief' },
      schema: {
        operationId: 'rotateWebhookSecret',
        summary: 'Rotate the secret of a webhook',
        description:
          'Creates another secret. For 24 hours each message is signed by both, so that no receiver refuses one while it changes its secret. A secret that was replaced before ends at once.\n\nPermission: `webhook:update`.',
        tags: ['Webhooks'],
        params: webhookParams,
        answer: 'The webhook, with its new secret.',
        examples: rotatedExamples,
        response: { 200: webhookWithSecret, ...failures(...commonFailures, 404, 409, 422) },
      },
    },
    async (request, reply) => answer(reply, await rotateSecret(ctx, workOf(request), request.params.id)),
  );
  app.post(
    '/webhooks/:id/ping',
    {
      config: { permission: 'webhook:update', idempotency: 'brief' },
      schema: {
        operationId: 'pingWebhook',
        summary: 'Send a test event',
        description:
          'Sends an event of the type `webhook.ping`, which tells nothing, as soon as the delivery has its turn. A paused webhook is a 409.\n\nPermission: `webhook:update`.',
        tags: ['Webhooks'],
        params: webhookParams,
        answer: 'The delivery.',
        examples: deliveryExamples,
        response: { 200: deliveryRecord, ...failures(...commonFailures, 404, 409, 422) },
      },
    },
    async (request, reply) => answer(reply, await pingWebhook(ctx, workOf(request), request.params.id)),
  );
  app.get(
    '/webhooks/:id/deliveries',
    {
      config: { permission: 'webhook:read' },
      schema: {
        operationId: 'listWebhookDeliveries',
        summary: 'List the deliveries of a webhook',
        description:
          'Lists the deliveries of the last 30 days, newest first. Counts stop at 10,000.\n\nPermission: `webhook:read`.',
        tags: ['Webhooks'],
        params: webhookParams,
        querystring: deliveryQuery,
        answer: 'A page of deliveries.',
        examples: deliveryPageExamples,
        response: { 200: deliveryPage, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => {
      const { state, ...page } = request.query;
      return listDeliveries(ctx, workOf(request), { id: request.params.id, state, page: pageOf(page) });
    },
  );
  app.post(
    '/webhooks/:id/deliveries/:delivery_id/replay',
    {
      config: { permission: 'webhook:update', idempotency: 'brief' },
      schema: {
        operationId: 'replayWebhookDelivery',
        summary: 'Send a delivery again',
        description:
          'Sends a delivery that was delivered or is dead again: the same body under the same `webhook-id`, so that a receiver knows it. One that waits, and a paused webhook, is a 409.\n\nPermission: `webhook:update`.',
        tags: ['Webhooks'],
        params: deliveryParams,
        answer: 'The delivery.',
        examples: deliveryExamples,
        response: { 200: deliveryRecord, ...failures(...commonFailures, 404, 409, 422) },
      },
    },
    async (request, reply) => {
      const { id, delivery_id } = request.params;
      return answer(reply, await replayDelivery(ctx, workOf(request), { id, delivery_id }));
    },
  );
};
