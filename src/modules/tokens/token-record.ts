// The response schema of a token. tokens.ts decides how much of a token a caller sees.
import { z } from 'zod';
import { unknownName } from '../../platform/base/unknown-names.ts';
import { type ParsedJson, parseInSlices } from '../../platform/json/json-parser.ts';
import { runAtOnce } from '../../platform/json/slices.ts';
import { isStorableText, type Json } from '../../platform/json/json.ts';
import { TOKEN_ID_LENGTH_MAX } from '../access/token-id.ts';
import { boundInDocuments } from '../access/bounds.ts';
import { parseContainer } from '../access/containers.ts';
import { tokenTypeNames } from './token-types.ts';
import {
  CARD_TOKEN_ID,
  cursorQuery,
  date,
  history,
  pageSchema,
  repeated,
  TENANT_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { cardToken, tokenMetadata } from './token-request.schema.ts';
import { cardDetails } from './card-details.ts';

export const tokenRecord = z
  .object({
    id: z.string().meta({
      description: 'The id of the token: a UUID, unless its creator chose another id.',
      example: CARD_TOKEN_ID,
    }),
    tenant_id: uuid('The tenant that owns the token. Left out for public keys.', TENANT_ID).optional(),
    type: z.string().optional().meta({
      description: 'The type of the token.',
      'x-extensible-enum': tokenTypeNames,
      example: 'card',
    }),
    data: z.any().optional().meta({
      description:
        'As much of the data as the caller may see: the masked value, or the value. Left out where the caller may see neither.',
      example: cardToken.data,
    }),
    mask: z.any().optional().meta({
      description: 'The mask as the creator sent it, or the evaluated default mask of the type.',
      example: cardToken.data,
    }),
    card: cardDetails.optional().meta({
      description:
        'Of a card, for callers who see its value or the mask of its type: what is known of it. Left out for a mask of its own.',
    }),
    fingerprint: z.string().optional().meta({
      description:
        'A keyed digest that is the same for equal values of a type within a tenant, and never across tenants. Left out for callers who may not see the masked value, and where the masked value shows the first six and the last four digits of a card number.',
      example: cardToken.fingerprint,
    }),
    fingerprint_expression: z.string().optional().meta({
      description: 'The expression that the fingerprint is computed from.',
      example: cardToken.fingerprint_expression,
    }),
    containers: z
      .array(z.string().meta({ example: '/pci/high/' }))
      .optional()
      .meta({ description: 'The container that stores the token. Access rules can be limited to containers.' }),
    metadata: tokenMetadata
      .optional()
      .meta({ description: 'Data about the token that is not sensitive, in plain text.', example: cardToken.metadata }),
    search_indexes: z
      .array(z.string().meta({ example: '{{ data.number | last4 }}' }))
      .optional()
      .meta({ description: 'The expressions that the token can be found by.' }),
    expires_at: date('The time from which the token cannot be read.').optional(),
    bound_to: boundInDocuments.optional().meta({
      description:
        'Where the value may go, how often and until when. With `hosts`, `proxies` or `reactors`, `data` is the masked value for every caller.',
    }),
    uses: z
      .int()
      .optional()
      .meta({ description: 'How many uses are counted. Present where the bound has `max_uses`.', example: 0 }),
    spent: z.int().optional().meta({
      description: 'What was charged, in minor units. Present where the allowance of the bound has `max_total`.',
      example: 0,
    }),
    ...history,
    created_at: history.created_at.optional(),
    _extras: z
      .object({
        deduplicated: z.boolean().meta({ description: 'Whether the response is an existing token.', example: false }),
      })
      .meta({ id: 'TokenExtras', description: 'Information about how the request was done.' })
      .optional()
      .meta({ description: 'Present where the request asked for deduplication.' }),
  })
  .meta({
    id: 'Token',
    description:
      'A token, with as much of it as the caller may see. For callers without `token:read`, the response to a change has `id`, `tenant_id` and the times only.',
  });

export const tokenIdParam = z.string().meta({ description: 'The id of a token.', example: CARD_TOKEN_ID });

export const tokenPage = pageSchema(tokenRecord, 'TokenPage');

const METADATA_PREFIX = 'metadata.';
const METADATA_FILTERS_MAX = 50;

/** A fingerprint has 44 characters at most: a digest of 32 bytes in base58. */
const FINGERPRINT_LENGTH_MAX = 100;

const badTokenId = `must be the id of a token, of at most ${TOKEN_ID_LENGTH_MAX} characters`;
const badTokenType = `must be one of ${tokenTypeNames.join(', ')}`;

const tokenIdFilter = z
  .string()
  .min(1, badTokenId)
  .max(TOKEN_ID_LENGTH_MAX, badTokenId)
  .refine(isStorableText, badTokenId);

const listQuery = {
  ...cursorQuery(),
  id: repeated(tokenIdFilter, 'Only tokens of these ids.', CARD_TOKEN_ID),
  type: repeated(z.enum(tokenTypeNames, badTokenType), 'Only tokens of these types.', 'card'),
};

/** The KEY of `metadata.KEY`. Clients of the earlier API write `metadata[KEY]`. */
const metadataKeyOf = (name: string): string | undefined =>
  name.startsWith(METADATA_PREFIX) ? name.slice(METADATA_PREFIX.length) : /^metadata\[(.+)\]$/s.exec(name)?.[1];

/** Current SDKs of the earlier API send all entries as one JSON text. @returns undefined for other text. */
const entriesOfText = (value: unknown): Record<string, string> | undefined => {
  if (typeof value !== 'string' || !value.startsWith('{')) return undefined;
  try {
    const { value: entries, findings } = runAtOnce(parseInSlices(value)) as ParsedJson & {
      value: Record<string, Json>;
    };
    if (findings.duplicate) return undefined;
    return Object.values(entries).every((each) => typeof each === 'string') && Object.keys(entries).length > 0
      ? (entries as Record<string, string>)
      : undefined;
  } catch {
    return undefined;
  }
};

/** A filter by one entry of the metadata. Undefined for another parameter. */
const entriesOf = (name: string, value: unknown): Record<string, unknown> | undefined => {
  if (name === 'metadata') return entriesOfText(value);
  const key = metadataKeyOf(name);
  return key === undefined ? undefined : { [key]: value };
};

/** With filters by metadata. A loose object, because no schema can list the keys of `metadata.KEY=value`. */
const withMetadata = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z.looseObject(shape).superRefine((query: Record<string, unknown>, ctx) => {
    const keys = new Set<string>();
    const addIssue = (name: string, message: string): void =>
      ctx.addIssue({ code: 'custom', path: [name.slice(0, 200)], message });
    for (const name of Object.keys(query)) {
      if (Object.hasOwn(shape, name)) continue;
      const entries = entriesOf(name, query[name]);
      if (name === 'metadata' && !entries) addIssue(name, 'must be written metadata.KEY=value, once for each key');
      else if (!entries) addIssue(name, unknownName(name, [...Object.keys(shape), 'metadata.KEY']));
      for (const [key, value] of Object.entries(entries ?? {}))
        if (typeof value !== 'string' || keys.has(key)) addIssue(name, 'must be given once');
        else keys.add(key);
      if (keys.size > METADATA_FILTERS_MAX)
        return addIssue('metadata', `must be at most ${METADATA_FILTERS_MAX} entries`);
    }
  });

/** The filters of a list of tokens. */
export const tokenListQuery = withMetadata(listQuery);

const { page: _, ...byCursor } = listQuery;

/** The filters of a list that pages by a cursor only. */
export const cursorTokenListQuery = withMetadata({
  ...byCursor,
  container: z
    .string('must be given once')
    .transform((text, ctx) => {
      const container = parseContainer(text);
      if (container !== undefined) return container;
      ctx.addIssue('must be a container path such as /pci/high/');
      return z.NEVER;
    })
    .optional()
    .meta({ description: 'Only tokens of this container, not of those below it.', example: '/pci/high/' }),
  fingerprint: z
    .string('must be given once')
    .min(1, 'must be a fingerprint')
    .max(FINGERPRINT_LENGTH_MAX, 'must be a fingerprint')
    .refine(isStorableText, 'must be a fingerprint')
    .optional()
    .meta({ description: 'Only tokens with this fingerprint.', example: cardToken.fingerprint }),
});

/** For descriptions of lists: client generators support no parameter map with unlisted keys. */
export const metadataFilter = `The filter \`metadata.KEY=value\`, such as \`metadata.order=4711\`, selects tokens with this entry in their metadata. It may be given once for each key, for at most ${METADATA_FILTERS_MAX} keys; upper and lower case are the same.`;

/** The metadata filters of a query string. */
export const metadataOf = (query: Record<string, unknown>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(query).flatMap(([name, value]) => Object.entries(entriesOf(name, value) ?? {})),
  ) as Record<string, string>;
