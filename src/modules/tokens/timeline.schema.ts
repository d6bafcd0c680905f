// Schemas of GET /tokens/{id}/timeline.
import { z } from 'zod';
import { disclosures, operations, outcomes } from '../../platform/db/audit-record.ts';
import {
  APPLICATION_ID,
  CARD_TOKEN_ID,
  CREATED_AT,
  date,
  type Examples,
  PROXY_ID,
  REACTOR_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { boundary } from '../../platform/http/list-parameters.ts';
import { actorType } from '../logs/logs.schema.ts';
import { FOLDED_MAX } from './rows/timeline-rows.ts';
import { CARD_TOKENS_MAX } from './timeline.ts';

export const timelineQuery = z.object({
  start_date: boundary('Only entries from this time on.'),
  end_date: boundary('Only entries from before this time.'),
});

const counts = {
  count: z.int().meta({ description: 'How many entries.', example: 5 }),
  first_at: date('When the first one was.'),
  last_at: date('When the last one was.', '2026-11-24T09:12:00.000Z'),
};

const closed = (values: readonly string[], description: string, example: string) =>
  z.string().meta({ description, 'x-extensible-enum': [...values], example });

const name = (what: string, example: string) =>
  z
    .string()
    .optional()
    .meta({ description: `The name that ${what} has now.`, example });

const timelineEntry = z
  .object({
    operation: closed(operations, 'The operation of the entries.', 'read'),
    message: z.string().meta({ description: 'What happened, in words.', example: 'Token used' }),
    outcome: closed(outcomes, 'How it ended.', 'success'),
    disclosure: closed(disclosures, 'How much of the value left the vault.', 'used'),
    actor_type: actorType,
    actor_id: uuid('The id of the application or user that did it.', APPLICATION_ID).optional(),
    actor_name: name('the application or user', 'Checkout server'),
    application_id: uuid('The id of the application that asked.', APPLICATION_ID).optional(),
    code_application_id: uuid('The id of the application whose rights code had.', APPLICATION_ID).optional(),
    reactor_id: uuid('The id of the reactor whose code got the value or asked.', REACTOR_ID).optional(),
    reactor_name: name('the reactor', 'Shop digits'),
    proxy_id: uuid('The id of the stored proxy.', PROXY_ID).optional(),
    proxy_name: name('the proxy', 'Payments'),
    destination_host: z.string().optional().meta({
      description: 'The host that the value was sent to, with the port where it is not 443.',
      example: 'api.example.com',
    }),
    is_list: z
      .literal(true)
      .optional()
      .meta({ description: 'True for lists and searches, which had other tokens too.', example: true }),
    ...counts,
  })
  .meta({ id: 'TimelineEntry', description: 'Equal entries of the log, as one.' });

const timelineDestination = z
  .object({
    destination_host: z
      .string()
      .meta({ description: 'The host, with the port where it is not 443.', example: 'api.example.com' }),
    ...counts,
    failed: z
      .int()
      .meta({ description: 'How many of them failed, before or after the host had the value.', example: 0 }),
  })
  .meta({ id: 'TimelineDestination', description: 'A host to which the proxy sent the value.' });

const more = (what: string) =>
  z
    .literal(true)
    .optional()
    .meta({ description: `True where there are more ${what}.`, example: true });

export const timelineRecord = z
  .object({
    token_ids: z.array(z.string()).meta({
      description: `The tokens of the card that the caller may read, newest first: tokens of one fingerprint. At most ${CARD_TOKENS_MAX}, and always the one that was asked for.`,
      example: [CARD_TOKEN_ID],
    }),
    has_more_tokens: more('tokens'),
    count: z.int().meta({ description: 'How many entries of the log are about these tokens.', example: 5 }),
    first_at: date('When the first of them was.').optional(),
    last_at: date('When the last of them was.', '2026-11-24T09:12:00.000Z').optional(),
    entries: z.array(timelineEntry).meta({
      description: `The entries, equal ones as one, the last ones first. At most ${FOLDED_MAX}.`,
    }),
    has_more_entries: more('entries'),
    destinations: z.array(timelineDestination).meta({
      description: `The hosts to which the proxy sent the value, the last ones first. At most ${FOLDED_MAX}.`,
    }),
    has_more_destinations: more('destinations'),
    since: date(
      'All of the above is about entries from this time on, because the card has many. Ask with it as `end_date` for earlier ones. Left out where all entries of the interval were read.',
    ).optional(),
  })
  .meta({ id: 'TokenTimeline', description: 'What happened to a card, by the log.' });

const times = { count: 5, first_at: CREATED_AT, last_at: '2026-11-24T09:12:00.000Z' };

export const timelineExamples: { response: Examples } = {
  response: {
    charged: {
      summary: 'A card that was charged',
      value: {
        token_ids: [CARD_TOKEN_ID],
        ...times,
        entries: [
          {
            operation: 'use',
            message: 'Token used',
            outcome: 'success',
            disclosure: 'used',
            actor_type: 'application',
            actor_id: APPLICATION_ID,
            actor_name: 'Checkout server',
            application_id: APPLICATION_ID,
            destination_host: 'api.example.com',
            ...times,
          },
        ],
        destinations: [{ destination_host: 'api.example.com', failed: 0, ...times }],
      },
    },
  },
};
