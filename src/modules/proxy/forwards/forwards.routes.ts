// Routes and schemas of /forwards: the records of requests through the proxy that have an idempotency key.
import { z } from 'zod';
import { answer } from '../../../platform/http/answers.ts';
import { optional } from '../../../platform/base/optional.ts';
import type { App } from '../../../platform/http/app-type.ts';
import {
  APPLICATION_ID,
  bodyFailures,
  boundary,
  CARD_TOKEN_ID,
  commonFailures,
  CREATED_AT,
  cursorQuery,
  date,
  type Examples,
  failures,
  givenUuid,
  oneOf,
  oneUuid,
  onlyPage,
  pageSchema,
  PROXY_ID,
  TENANT_ID,
  TRACE_ID,
  uuid,
} from '../../../platform/http/schemas.ts';
import { pageOf } from '../../../platform/base/pagination.ts';
import { workOf } from '../../access/authenticate.ts';
import { keyOf } from '../../access/idempotent-requests.ts';
import { actorType } from '../../logs/logs.schema.ts';
import { forwardStates, storedAnswers } from '../../runs/forward-rows.ts';
import type { ProxyContext } from '../context.ts';
import { getForward, listForwards } from './records.ts';
import { replayForward } from './replay.ts';

const FORWARD_ID = '019ac3d5-7f63-7b1e-9a64-0f2d7c5b8e13';

const forwardQuery = z.object({
  ...cursorQuery('WyIwMTlhYzNkNS03ZjYzLTdiMWUtOWE2NC0wZjJkN2M1YjhlMTMiXQ'),
  proxy_id: oneUuid('Only requests through this stored proxy.', PROXY_ID),
  state: oneOf(forwardStates, 'Only requests in this state.', 'unknown'),
  start_date: boundary('Only requests that began at this time or later.'),
  end_date: boundary('Only requests that began before this time.'),
});

const forwardParams = z.object({ id: givenUuid.meta({ description: 'The id of the record.', example: FORWARD_ID }) });

const includeQuery = z.object({
  include: oneOf(['bodies'], '`bodies`: the request and the kept response as well.', 'bodies'),
});

const shownBody = z
  .object({
    text: z.string().optional().meta({ description: 'The body, where it is UTF-8.', example: '{"amount":1250}' }),
    base64: z.string().optional().meta({ description: 'The body in base64, where it is not.', example: 'AAEC/w==' }),
  })
  .meta({ id: 'ForwardBody', description: 'A body as text, or in base64.' });

const shownRequest = z
  .object({
    url: z.string().optional().meta({
      description: 'The destination that the request named. Left out through a stored proxy.',
      example: 'https://api.example.com/v1/charges',
    }),
    path: z.string().meta({
      description: 'The path behind `/proxy`, as it was sent. Empty where a security code is in the URL.',
      example: '/v1/charges',
    }),
    query: z.string().meta({
      description: 'The query without its `?`, or nothing. Empty where a security code is in the URL.',
      example: '',
    }),
    header_names: z.array(z.string()).meta({
      description:
        'The names of the headers that were forwarded, without those of a security code. No answer has their values.',
      example: ['Content-Type'],
    }),
    body: shownBody.optional(),
    is_body_stored: z.boolean().meta({
      description: 'False for a body that is not stored: over 256 KB, or with a security code that is no expression.',
      example: true,
    }),
  })
  .meta({ id: 'RecordedForward', description: 'The request as it came, with expressions and no values of tokens.' });

const shownResponse = z
  .object({
    status: z.int().meta({ description: 'The status of the response.', example: 201 }),
    headers: z
      .array(
        z
          .object({
            name: z.string().meta({ description: 'The name of the header.', example: 'Content-Type' }),
            value: z.string().meta({ description: 'The value of the header.', example: 'application/json' }),
          })
          .meta({ id: 'ForwardHeader', description: 'A header of a kept response.' }),
      )
      .meta({ description: 'The headers, in their order.' }),
    body: shownBody.optional(),
  })
  .meta({ id: 'KeptResponse', description: 'The response that a repeated request gets.' });

const forwardRecord = z
  .object({
    id: uuid('The id of the record, as in `SVC-FORWARD-ID`.', FORWARD_ID),
    tenant_id: uuid('The id of the tenant.', TENANT_ID),
    state: z.string().meta({
      description:
        '`begun`: nothing was sent yet. `sent`: it is being sent, or the response is awaited. `answered`: the destination responded. `unknown`: it was sent, and no response is known. `failed`: nothing was sent.',
      'x-extensible-enum': [...forwardStates],
      example: 'answered',
    }),
    method: z.string().meta({ description: 'The method of the request.', example: 'POST' }),
    destination_host: z.string().meta({
      description: 'The host of the destination, with the port where it is not 443.',
      example: 'api.example.com',
    }),
    path_digest: z.string().meta({
      description: 'A keyed digest of the destination as spelled: equal ones are one destination.',
      example: 'q0JcWkN0b3J5X29mX2FfcGF0aF9kaWdlc3RfMDAwMDA',
    }),
    proxy_id: uuid(
      'The id of the stored proxy. Left out for a request that named its destination.',
      PROXY_ID,
    ).optional(),
    token_ids: z.array(z.string()).meta({ description: 'The ids of the tokens in it.', example: [CARD_TOKEN_ID] }),
    status: z.int().optional().meta({
      description: 'The status that the destination answered. Left out if no response is known.',
      example: 201,
    }),
    answer: z.string().meta({
      description: 'Whether the response is stored: `kept`, `not_kept` (its status and headers only), or `none`.',
      'x-extensible-enum': [...storedAnswers],
      example: 'kept',
    }),
    attempts: z.int().meta({ description: 'How often it was begun.', example: 1 }),
    replay_of: uuid('The id of the record that it replays. Left out for others.', FORWARD_ID).optional(),
    actor_id: uuid('The id of the application or user that sent it.', APPLICATION_ID),
    actor_type: actorType,
    trace_id: z.string().optional().meta({ description: 'The `SVC-TRACE-ID` of the request.', example: TRACE_ID }),
    begun_at: date('When it came.'),
    sent_at: date('Before its first byte left last. Left out where nothing was sent.').optional(),
    answered_at: date('When the destination answered. Left out if no response is known.').optional(),
    request: shownRequest.optional(),
    response: shownResponse.optional(),
  })
  .meta({ id: 'Forward', description: 'A request through the proxy that has an idempotency key.' });

const forwardPage = pageSchema(forwardRecord, 'ForwardPage');

const forward = {
  id: FORWARD_ID,
  tenant_id: TENANT_ID,
  state: 'answered',
  method: 'POST',
  destination_host: 'api.example.com',
  path_digest: 'q0JcWkN0b3J5X29mX2FfcGF0aF9kaWdlc3RfMDAwMDA',
  proxy_id: PROXY_ID,
  token_ids: [CARD_TOKEN_ID],
  status: 201,
  answer: 'kept',
  attempts: 1,
  actor_id: APPLICATION_ID,
  actor_type: 'application',
  trace_id: TRACE_ID,
  begun_at: CREATED_AT,
  sent_at: CREATED_AT,
  answered_at: CREATED_AT,
};

const forwardExamples: { response: Examples } = {
  response: { answered: { summary: 'A request that was answered', value: forward } },
};

const forwardPageExamples: { response: Examples } = {
  response: { page: { summary: 'A page', value: { pagination: onlyPage(1), data: [forward] } } },
};

const replayRequest = z
  .object(
    {
      proxy_id: optional(givenUuid).meta({
        description:
          'Another stored proxy to send it through, which needs `proxy:read`. Left out: where it went first.',
        example: PROXY_ID,
      }),
      accept_risk: optional(z.boolean('must be true or false')).meta({
        description: 'True to send a request whose outcome is `unknown`: the destination may do it a second time.',
        example: true,
      }),
    },
    'the body must be an object',
  )
  .meta({ id: 'ReplayForwardRequest', description: 'How a request is sent once more.' })
  .nullish();

const replayExamples: { request: Examples; response: Examples } = {
  request: { elsewhere: { summary: 'Through another proxy', value: { proxy_id: PROXY_ID } } },
  response: {
    elsewhere: {
      summary: 'The new request was answered',
      value: { ...forward, id: '019ac3d6-11c2-7d5f-8b0e-6a4f1d9c7e21', replay_of: FORWARD_ID },
    },
  },
};

const tags = ['Forwards'];

export const forwardsRoutes = (app: App, ctx: ProxyContext): void => {
  app.get(
    '/forwards',
    {
      config: { permission: 'forward:read' },
      schema: {
        operationId: 'listForwards',
        summary: 'List forwards',
        description:
          'Lists the requests of the tenant through the proxy that have an idempotency key, newest first, for `RUN_RETENTION_DAYS`. `start_date` is part of the interval, `end_date` is not. The list has no bodies.\n\nPermission: `forward:read`.',
        tags,
        querystring: forwardQuery,
        answer: 'A page of records.',
        examples: forwardPageExamples,
        response: { 200: forwardPage, ...failures(...commonFailures) },
      },
    },
    async (request) => {
      const { page, size, start, ...filter } = request.query;
      return listForwards(ctx, workOf(request), { filter, page: pageOf({ page, size, start }) });
    },
  );

  app.get(
    '/forwards/:id',
    {
      config: { permission: 'forward:read' },
      schema: {
        operationId: 'getForward',
        summary: 'Get a forward',
        description:
          'Returns what became of one request. With `include=bodies` it has the request and the kept response, for a day. The response is left out where the caller may not use each token in it today.\n\nPermission: `forward:read`.',
        tags,
        params: forwardParams,
        querystring: includeQuery,
        answer: 'The record.',
        examples: forwardExamples,
        response: { 200: forwardRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => {
      const { id } = request.params;
      return getForward(ctx, workOf(request), { id, withBodies: request.query.include === 'bodies' });
    },
  );

  app.post(
    '/forwards/:id/replay',
    {
      config: { permission: 'forward:replay', creates: '/forwards', idempotency: 'own' },
      schema: {
        operationId: 'replayForward',
        summary: 'Send a forward again',
        description:
          'Sends a request once more, as a new one with its own record, with the rights, bounds and limits that the caller has now. Through another proxy, or one whose destination or code has changed, it has of the headers of the first request only those that say what the body is, and `Accept`. A request that is under way is a 409, and so is one whose outcome is not known (without `accept_risk`), and one that is not stored: after a day, or with a body over 256 KB or a security code.\n\nPermission: `forward:replay`, `token:use` too, and `proxy:read` for another proxy.',
        tags,
        alsoNeeds: ['token:use'],
        params: forwardParams,
        body: replayRequest,
        isBodyOptional: true,
        answer: 'The record of the new request, whatever became of it.',
        examples: replayExamples,
        response: { 201: forwardRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => {
      const { proxy_id, accept_risk = false } = request.body ?? {};
      const replay = { id: request.params.id, proxy_id, accept_risk, key: keyOf(request) };
      return answer(reply, await replayForward(ctx, workOf(request), replay));
    },
  );
};
