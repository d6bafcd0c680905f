// Schemas of /applications/{id}/keys.
import { z } from 'zod';
import {
  APPLICATION_ID,
  created,
  date,
  EXAMPLE_API_KEY,
  type Examples,
  givenUuid,
  history,
  modified,
  TENANT_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { optional } from '../../platform/base/optional.ts';
import { networksSchema } from '../../platform/base/ip-networks.ts';
import { parseDate } from '../../platform/json/dates.ts';
import { onlyPage, repeated } from '../../platform/http/list-parameters.ts';
import { paginationSchema } from '../../platform/base/pagination.ts';
import { API_KEYS_MAX } from './application-keys.ts';
import { nameSchema } from './names.ts';

const EXAMPLE_ID = 'ExampleExample00';
const EXPIRY = '2027-03-01T00:00:00.000Z';
const NETWORKS = ['192.0.2.0/24', '2001:db8:7::/48'];
const NAME = 'Checkout in Frankfurt';

const KEY_ID_TEXT = 'The public part of an API key: the sixteen characters after its prefix.';

export const applicationKeysParams = z.object({
  id: givenUuid.meta({ description: 'The id of an application.', example: APPLICATION_ID }),
});

export const applicationKeyParams = z.object({
  id: applicationKeysParams.shape.id,
  key_id: z.string().meta({ description: KEY_ID_TEXT, example: EXAMPLE_ID }),
});

const EXPIRY_ERROR = 'must be a time (RFC 3339)';

export const applicationKeyBody = z
  .object(
    {
      name: optional(nameSchema).meta({ description: 'What the key is for. Left out: no name.', example: NAME }),
      expires_at: z
        .string(EXPIRY_ERROR)
        .meta({ format: 'date-time' })
        .nullish()
        .transform((text, ctx) => {
          if (text == null) return undefined;
          const at = parseDate(text);
          if (at) return at;
          ctx.addIssue({ code: 'custom', message: EXPIRY_ERROR });
          return z.NEVER;
        })
        .meta({ description: 'When the key ends. Left out: it does not.', example: EXPIRY }),
      allowed_addresses: networksSchema.meta({
        description:
          'The IP addresses and networks that may use the key, as the server sees its clients: behind a load balancer the operator must have set `TRUSTED_PROXIES`. Left out: all.',
        example: NETWORKS,
      }),
    },
    'the body must be an object',
  )
  .meta({ id: 'ApiKeyRequest', description: 'What an API key is called and limited by.' });

export const applicationKeyRecord = z
  .object({
    id: z.string().meta({ description: KEY_ID_TEXT, example: EXAMPLE_ID }),
    tenant_id: uuid('The id of the tenant that owns the application.', TENANT_ID),
    application_id: uuid('The id of the application that the key belongs to.', APPLICATION_ID),
    name: z.string().optional().meta({ description: 'What the key is for.', example: NAME }),
    expires_at: date('When the key ends. Left out: it does not.', EXPIRY).optional(),
    allowed_addresses: z
      .array(z.string().meta({ example: '192.0.2.0/24' }))
      .optional()
      .meta({ description: 'The IP addresses and networks that may use the key. Left out: all.' }),
    last_used_at: date('When the key was used last, to the minute. Left out: not yet.').optional(),
    key: z.string().optional().meta({
      description: 'The API key. Only the response that created it has it.',
      format: 'password',
      example: EXAMPLE_API_KEY,
    }),
    ...history,
  })
  .meta({ id: 'ApiKey', description: 'An API key of an application, without its secret.' });

/** For a new key, whose body may be left out. */
export const newApplicationKeyBody = applicationKeyBody.nullish();

/** As of an empty body. */
export const plainKey = applicationKeyBody.parse({});

export const applicationKeyQuery = z.object({ id: repeated(z.string(), 'Only these keys.', EXAMPLE_ID) });

export const applicationKeyList = z
  .object({
    pagination: paginationSchema,
    data: z.array(applicationKeyRecord).meta({ description: `The keys, newest first: ${API_KEYS_MAX} at most.` }),
  })
  .meta({ id: 'ApiKeyList', description: 'All API keys of an application, on one page.' });

const settings = { name: NAME, expires_at: EXPIRY, allowed_addresses: NETWORKS };
const shown = { id: EXAMPLE_ID, tenant_id: TENANT_ID, application_id: APPLICATION_ID, ...settings };
const summary = 'A key of one place, until March';

export const newKeyExamples: { request: Examples; response: Examples } = {
  request: { place: { summary, value: settings } },
  response: { place: { summary, value: { ...shown, key: EXAMPLE_API_KEY, ...created } } },
};

export const keyExamples: { response: Examples } = {
  response: { place: { summary, value: { ...shown, ...created } } },
};

export const keyChangeExamples: { request: Examples; response: Examples } = {
  request: { place: { summary, value: settings } },
  response: { place: { summary, value: { ...shown, ...created, ...modified } } },
};

export const keyListExamples: { response: Examples } = {
  response: {
    one: {
      summary: 'One key',
      value: { pagination: { ...onlyPage(1), page_size: API_KEYS_MAX }, data: [{ ...shown, ...created }] },
    },
  },
};
