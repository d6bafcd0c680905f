// Schemas and examples of /access.
import { z } from 'zod';
import { optional } from '../../platform/base/optional.ts';
import { APPLICATION_ID, CARD_TOKEN_ID, type Examples, givenUuid, PROXY_ID } from '../../platform/http/schemas.ts';
import { parseContainer } from '../access/containers.ts';
import { containerPath } from '../access/containers.schema.ts';
import { notPermission, permissions } from '../access/permissions.ts';
import { TOKEN_ID_LENGTH_MAX } from '../access/token-id.ts';
import { checkNames } from './explain.ts';

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
    kind: z.enum(['rule', 'permission', 'role', 'nothing']).meta({
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
  .meta({ id: 'AccessBy', description: 'What decides.' });

export const explanation = z
  .object({
    decision: z.enum(['allowed', 'refused']).meta({
      description: 'Allowed only if every check is passed.',
      example: 'refused',
    }),
    by,
    shows: z.enum(['value', 'masked', 'nothing']).meta({
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
            why: z.enum(['permission', 'container', 'condition']).meta({
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
    use: {
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
