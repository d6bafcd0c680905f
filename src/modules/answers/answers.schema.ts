// Schemas and examples of /access.
import { z } from 'zod';
import { optional } from '../../platform/base/optional.ts';
import {
  APPLICATION_ID,
  CARD_TOKEN_ID,
  CREATED_AT,
  date,
  type Examples,
  givenUuid,
  oneOf,
  PROXY_ID,
  TENANT_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { triedRights } from '../access/applications.schema.ts';
import { checkNames } from '../access/checks.ts';
import { parseContainer } from '../access/containers.ts';
import { containerPath } from '../access/containers.schema.ts';
import { notPermission, permissions } from '../access/permissions.ts';
import { TOKEN_ID_LENGTH_MAX } from '../access/token-id.ts';
import { NOTE_LENGTH_MAX } from './attest.ts';
import { reviewFormats } from './review-file.ts';
import { DAYS_MAX, EXAMINED_MAX, SAMPLES_MAX } from './simulate.ts';

const MEMBER_ID = '5d2b8c1f-6e4a-4f90-8a37-1c9e0b7d3f24';

/** The longest host name (RFC 1035 section 2.3.4), with a port. */
const HOST_LENGTH_MAX = 259;
const hostError = 'must be the name of a host, such as api.example.com, with a port where it is not 443';

export const question = z
  .object({
    application_id: optional(givenUuid).meta({
      description: 'The application that the question is about. Without it and `member_id`: the caller.',
      example: APPLICATION_ID,
    }),
    member_id: optional(givenUuid).meta({
      description: 'The member that the question is about.',
      example: MEMBER_ID,
    }),
    permission: z
      .enum(permissions, {
        error: ({ input }) => notPermission('a permission; GET /permissions lists them', input, permissions),
      })
      .meta({ description: 'What is to be done.', 'x-extensible-enum': permissions, example: 'token:use' }),
    token_id: optional(z.string().min(1).max(TOKEN_ID_LENGTH_MAX)).meta({
      description: 'The token. A permission on tokens needs it, or `container`.',
      example: CARD_TOKEN_ID,
    }),
    container: optional(containerPath.transform((text) => parseContainer(text) ?? z.NEVER)).meta({
      description: 'In place of a token: a token in this container, with an id that no rule names, and with a mask.',
      example: '/pci/high/',
    }),
    host: optional(
      z
        .string(hostError)
        .max(HOST_LENGTH_MAX, { error: hostError, abort: true })
        .regex(/^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?(:\d{1,5})?$/, hostError),
    ).meta({ description: 'For `token:use`: the host that the value is to be sent to.', example: 'api.example.com' }),
    proxy_id: optional(givenUuid).meta({
      description: 'For `token:use`: the stored proxy through which the value is to be sent.',
      example: PROXY_ID,
    }),
  })
  .meta({ id: 'AccessQuestion', description: 'Whether somebody may do something with a token.' });

const by = z
  .object({
    kind: z.string().meta({
      'x-extensible-enum': ['rule', 'permission', 'role', 'nothing'],
      description:
        '`rule`: an access rule of the application. `permission`: none of its rules, but a permission, which is on all tokens. `role`: that of a member. `nothing`: it is refused.',
      example: 'rule',
    }),
    rule_index: z.int().optional().meta({ description: 'The place of the rule in `rules`, from 0.', example: 0 }),
    priority: z.int().optional().meta({ description: 'The priority of the rule.', example: 1 }),
    description: z
      .string()
      .optional()
      .meta({ description: 'The description of the rule, or the role of the member.', example: 'Cards of the shop' }),
  })
  .meta({ id: 'AccessBy', description: 'What decides about the request.' });

export const explanation = z
  .object({
    decision: z.string().meta({
      'x-extensible-enum': ['allowed', 'refused'],
      description: 'Allowed only if every check is passed.',
      example: 'refused',
    }),
    by,
    shows: z.string().meta({
      'x-extensible-enum': ['value', 'masked', 'nothing'],
      description:
        'How much of the value the operation gives: to its caller, or to code and destinations for `token:use`. For a member: what the console shows when the member asks for it.',
      example: 'nothing',
    }),
    checks: z
      .array(
        z
          .object({
            name: z.string().meta({
              description: 'What is checked.',
              'x-extensible-enum': [...checkNames],
              example: 'application.allowed_hosts',
            }),
            ok: z.boolean().meta({ description: 'Whether it is passed.', example: false }),
            detail: z.string().meta({
              description: 'What was found, in a sentence.',
              example: 'The host is not on the list of the application.',
            }),
          })
          .meta({ id: 'AccessCheck', description: 'One check of a request.' }),
      )
      .meta({ description: 'In the order in which a request is checked.' }),
    skipped: z
      .array(
        z
          .object({
            rule_index: z.int().meta({ description: 'The place of the rule in `rules`, from 0.', example: 1 }),
            why: z.string().meta({
              'x-extensible-enum': ['permission', 'container', 'condition'],
              description: 'The rule does not name the permission, or does not reach the token.',
              example: 'container',
            }),
          })
          .meta({ id: 'SkippedRule', description: 'A rule that does not decide.' }),
      )
      .meta({ description: 'The rules before the one that decides, in the order in which they are asked.' }),
  })
  .meta({ id: 'AccessExplanation', description: 'What a request would be allowed, and why.' });

export const explainExamples: { request: Examples; response: Examples } = {
  request: {
    refused: {
      summary: 'Why was this token not sent?',
      value: {
        application_id: APPLICATION_ID,
        permission: 'token:use',
        token_id: CARD_TOKEN_ID,
        host: 'api.example.com',
      },
    },
  },
  response: {
    refused: {
      summary: 'The host is on no list of the application',
      value: {
        decision: 'refused',
        by: { kind: 'rule', rule_index: 0, priority: 1, description: 'Cards of the shop' },
        shows: 'nothing',
        checks: [
          { name: 'rule', ok: true, detail: 'An access rule allows it, and gives its value.' },
          { name: 'token', ok: true, detail: 'The token is in /pci/high/.' },
          { name: 'expiry', ok: true, detail: 'The token has not expired.' },
          {
            name: 'application.allowed_hosts',
            ok: false,
            detail: 'The host is not on the list of the application.',
          },
          { name: 'operator', ok: true, detail: 'The operator of the vault lets requests go there.' },
        ],
        skipped: [],
      },
    },
  },
};

export const reviewQuery = z.object({
  format: oneOf(reviewFormats, 'The form of the file. Left out: `json`.', 'csv'),
});

const reaches = (what: string, example: string) =>
  z.array(z.string().meta({ example })).meta({ description: `${what}, in words, in the order in which rules decide.` });

const count = (what: string) =>
  z.int().meta({
    description: `How many tokens that is, without those that rules name by their ids. ${what}`,
    example: 42,
  });

const reviewRow = z
  .object({
    kind: z.string().meta({
      description:
        'An application, one of its keys, a member, a stored proxy that needs no API key, or an application that may create sessions for browsers.',
      'x-extensible-enum': ['application', 'key', 'member', 'open_proxy', 'session_creator'],
      example: 'application',
    }),
    id: z.string().meta({ description: 'The id of the record.', example: APPLICATION_ID }),
    name: z.string().optional().meta({ description: 'The name of the record.', example: 'Checkout' }),
    type: z
      .string()
      .optional()
      .meta({ description: 'The type of an application, or the role of a member.', example: 'private' }),
    application_id: uuid(
      'Of a key and of a creator of sessions: its application. Of an open proxy: the application whose rights it has.',
      APPLICATION_ID,
    ).optional(),
    reveals: reaches('The tokens whose values it may read', 'tokens below /pci/'),
    uses: reaches('The tokens that it may use in reactors and through proxies', 'tokens below /pci/'),
    changes: reaches('The tokens that it may store, change or delete', 'store tokens below /pci/'),
    other_permissions: z
      .array(z.string().meta({ example: 'log:read' }))
      .meta({ description: 'Its permissions that are on no token.' }),
    reveals_tokens: count('Of those that have a mask, the ones whose value is read.'),
    uses_tokens: count('Those whose values are used.'),
    changes_tokens: count('Those that it may change or delete.'),
    hosts: z
      .array(z.string().meta({ example: 'api.example.com' }))
      .optional()
      .meta({ description: 'The hosts that it may send to. Left out: not limited.' }),
    limits: z.array(z.string().meta({ example: '1000 values a day' })).meta({ description: 'Its limits, in words.' }),
    live_sessions: z.int().optional().meta({ description: 'Sessions for browsers that have not ended.', example: 3 }),
    last_used_at: date('The last use: of a key, of a member who is signed in, or the last session.').optional(),
    created_at: date('When it was created.'),
    age_days: z.int().meta({ description: 'How old it is, in days.', example: 120 }),
    expires_at: date('When the key ends. Left out: it does not.').optional(),
    orphan: z.array(z.string().meta({ example: 'unused for 90 days' })).meta({
      description:
        'What nobody may be responsible for: `creator is gone`, `unused for 90 days`, `no authentication`. Empty for nothing.',
    }),
  })
  .meta({ id: 'AccessReviewRow', description: 'What one principal may do.' });

export const review = z
  .object({
    tenant_id: uuid('The id of the tenant.', TENANT_ID),
    reviewed_at: date('When the review was made.'),
    containers: z
      .array(
        z
          .object({
            container: z.string().meta({ description: 'The path of the container.', example: '/pci/high/' }),
            tokens: z.int().meta({ description: 'How many tokens are in it, up to 10,000.', example: 42 }),
          })
          .meta({ id: 'CountedContainer', description: 'A container that holds tokens.' }),
      )
      .meta({ description: 'All containers that hold tokens.' }),
    rows: z.array(reviewRow).meta({ description: 'Applications with their keys, members and open proxies.' }),
  })
  .meta({ id: 'AccessReview', description: 'Who may do what, at one time.' });

export const reviewExamples: { response: Examples } = {
  response: {
    one: {
      summary: 'An application that reveals cards',
      value: {
        tenant_id: TENANT_ID,
        reviewed_at: CREATED_AT,
        containers: [{ container: '/pci/high/', tokens: 42 }],
        rows: [
          {
            kind: 'application',
            id: APPLICATION_ID,
            name: 'Checkout',
            type: 'private',
            reveals: ['tokens below /pci/'],
            uses: [],
            changes: ['store all tokens'],
            other_permissions: ['log:read'],
            reveals_tokens: 42,
            uses_tokens: 0,
            changes_tokens: 0,
            limits: ['1000 values a day'],
            last_used_at: CREATED_AT,
            created_at: CREATED_AT,
            age_days: 120,
            orphan: ['creator is gone'],
          },
        ],
      },
    },
  },
};

const DIGEST = 'f2ca1bb6c7e907d06dafe4687e579fce76b37e4e93b7605022da52e6ccc26fd2';
const digestError = 'must be the SHA-256 of the reviewed file, as 64 hexadecimal digits';
const noteError = `must be a line of 1 to ${NOTE_LENGTH_MAX} characters`;

export const newAttestation = z
  .object({
    digest: z
      .string(digestError)
      .regex(/^[0-9a-f]{64}$/i, digestError)
      .toLowerCase()
      .meta({ description: 'The SHA-256 of the file, as `SVC-REVIEW-DIGEST` has it.', example: DIGEST }),
    note: optional(
      z
        .string(noteError)
        .min(1, noteError)
        .max(NOTE_LENGTH_MAX, { error: noteError, abort: true })
        // Neither control characters nor halves of pairs.
        .refine((text) => !/[\p{Cc}\p{Cs}]/u.test(text), noteError),
    ).meta({
      description: 'What was found. Without numbers of seven digits or more.',
      example: 'Two keys were ended.',
    }),
  })
  .meta({ id: 'AttestationRequest', description: 'That a person has read a review.' });

export const attestation = z
  .object({
    digest: z.string().meta({ description: 'The SHA-256 of the file.', example: DIGEST }),
    note: z.string().optional().meta({ description: 'What was found.', example: 'Two keys were ended.' }),
    attested_by: uuid('The id of the application or user that attested.', APPLICATION_ID),
    attested_at: date('When it was attested.'),
  })
  .meta({ id: 'Attestation', description: 'The entry of the log.' });

const attested = { digest: DIGEST, note: 'Two keys were ended.' };

export const attestationExamples: { request: Examples; response: Examples } = {
  request: { note: { summary: 'With a note', value: attested } },
  response: {
    note: {
      summary: 'With a note',
      value: { ...attested, attested_by: APPLICATION_ID, attested_at: CREATED_AT },
    },
  },
};

const daysError = `must be a whole number from 1 to ${DAYS_MAX}`;

export const simulation = z
  .object({
    application_id: givenUuid.meta({ description: 'The id of the application.', example: APPLICATION_ID }),
    ...triedRights,
    days: z.int(daysError).min(1, daysError).max(DAYS_MAX, daysError).meta({
      description: 'The entries of the log of how many days are decided again.',
      example: 7,
    }),
  })
  .meta({ id: 'AccessSimulationRequest', description: 'A change of an application, which is not made.' });

const degree = z.string().meta({
  description: '`refused`, or how much of the value the operation gives.',
  'x-extensible-enum': ['refused', 'nothing', 'masked', 'value'],
  example: 'value',
});

const changed = z
  .object({
    count: z.int().meta({ description: 'How many decisions change so.', example: 3 }),
    samples: z
      .array(
        z
          .object({
            log_id: uuid('The id of the entry of the log.', '019ac3d5-7f63-7b1e-9a64-0f2d7c5b8e13'),
            permission: z.string().meta({ description: 'The permission that it needed.', example: 'token:read' }),
            entity_type: z.string().meta({ description: 'The kind of its entity.', example: 'card' }),
            entity_id: z.string().meta({ description: 'The id of its entity.', example: CARD_TOKEN_ID }),
            container: z.string().optional().meta({ description: 'Where the token is now.', example: '/pci/high/' }),
            destination_host: z
              .string()
              .optional()
              .meta({ description: 'The host that it was sent to.', example: 'api.example.com' }),
            was: degree,
            would_be: degree,
          })
          .meta({ id: 'SimulatedAccess', description: 'One decision that changes.' }),
      )
      .meta({ description: `The newest ${SAMPLES_MAX} of them.` }),
  })
  .meta({ id: 'SimulatedChange', description: 'Decisions that change in one way.' });

export const simulated = z
  .object({
    examined: z.int().meta({
      description: `How many decisions were made again: one for each entity of an entry, the newest ${EXAMINED_MAX}.`,
      example: 1200,
    }),
    unknown: z.int().meta({
      description: 'How many of them cannot be decided: the token is gone, or the entry names no permission.',
      example: 4,
    }),
    newly_refused: changed,
    newly_allowed: changed,
    shows_more: changed,
    shows_less: changed,
  })
  .meta({ id: 'AccessSimulation', description: 'What the change would have done.' });

const noChange = { count: 0, samples: [] };

export const simulationExamples: { request: Examples; response: Examples } = {
  request: {
    refused: {
      summary: 'Only one host any more',
      value: { application_id: APPLICATION_ID, allowed_hosts: ['api.example.com'], days: 7 },
    },
  },
  response: {
    refused: {
      summary: 'One request would have been refused',
      value: {
        examined: 1200,
        unknown: 4,
        newly_refused: {
          count: 1,
          samples: [
            {
              log_id: '019ac3d5-7f63-7b1e-9a64-0f2d7c5b8e13',
              permission: 'token:use',
              entity_type: 'card',
              entity_id: CARD_TOKEN_ID,
              container: '/pci/high/',
              destination_host: 'api.example.net',
              was: 'value',
              would_be: 'refused',
            },
          ],
        },
        newly_allowed: noChange,
        shows_more: noChange,
        shows_less: noChange,
      },
    },
  },
};
