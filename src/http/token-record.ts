// The token on the wire: several features answer with it. What a caller sees of one is decided in vault/tokens.ts.
import { z } from 'zod';
import { unknownName } from '../unknown-names.ts';
import { isStorableText } from '../vault/json.ts';
import { TOKEN_ID_LENGTH_MAX } from '../vault/token-id.ts';
import { tokenTypeNames } from '../vault/token-types.ts';
import { APPLICATION_ID, cardToken, cardTokenId, CREATED_AT, TENANT_ID } from './openapi-examples.ts';
import { cursorQuery, pageSchema, repeated } from './pagination.ts';
import { tokenMetadata } from './token-request-schema.ts';

const date = (description: string) => z.string().meta({ description, format: 'date-time', example: CREATED_AT });
const uuid = (description: string, example: string) => z.string().meta({ description, format: 'uuid', example });

export const tokenRecord = z
  .object({
    id: z
      .string()
      .meta({ description: 'The id of the token: a UUID, unless its creator chose another id.', example: cardTokenId }),
    tenant_id: uuid('The tenant that owns the token.', TENANT_ID),
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
    fingerprint: z.string().optional().meta({
      description:
        'A keyed digest that is the same for equal values of a type within a tenant, and never across tenants. Left out for callers who may not see the masked value.',
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
    created_by: uuid('The id of the application that created the token.', APPLICATION_ID).optional(),
    created_at: date('When the token was created.').optional(),
    modified_by: uuid('The id of the application that changed the token last.', APPLICATION_ID).optional(),
    modified_at: date('When the token was changed last.').optional(),
    _extras: z
      .object({
        deduplicated: z.boolean().meta({ description: 'Whether the answer is an existing token.', example: false }),
      })
      .meta({ id: 'TokenExtras', description: 'What the answer says about the request.' })
      .optional()
      .meta({ description: 'Present where the request asked for deduplication.' }),
  })
  .meta({
    id: 'Token',
    description:
      'A token, with as much of it as the caller may see. A change answers a caller without `token:read` with `id`, `tenant_id` and the times only.',
  });

export const tokenIdParam = z.string().meta({ description: 'The id of a token.', example: cardTokenId });

/** Pages of tokens. */
export const tokenPage = pageSchema(tokenRecord, 'TokenPage');

const METADATA_PREFIX = 'metadata.';
const METADATA_FILTERS_MAX = 50;

const badTokenId = `must be the id of a token, of at most ${TOKEN_ID_LENGTH_MAX} characters`;
const badTokenType = `must be one of ${tokenTypeNames.join(', ')}`;

const tokenIdFilter = z
  .string()
  .min(1, badTokenId)
  .max(TOKEN_ID_LENGTH_MAX, badTokenId)
  .refine(isStorableText, badTokenId);

const listQuery = {
  ...cursorQuery(),
  id: repeated(tokenIdFilter, 'Only tokens of these ids.', cardTokenId),
  type: repeated(z.enum(tokenTypeNames, badTokenType), 'Only tokens of these types.', 'card'),
};

const listQueryNames = [...Object.keys(listQuery), 'metadata.KEY'];

/** The KEY of `metadata.KEY`, or of `metadata[KEY]`, which clients of the earlier API write. */
const metadataKeyOf = (name: string): string | undefined =>
  name.startsWith(METADATA_PREFIX) ? name.slice(METADATA_PREFIX.length) : /^metadata\[(.+)\]$/s.exec(name)?.[1];

/** The filters of a list of tokens. Entries of the metadata come as `metadata.KEY=value`, under keys that no schema can list. */
export const tokenListQuery = z.looseObject(listQuery).superRefine((query, ctx) => {
  const keys = new Set<string>();
  const addIssue = (name: string, message: string): void =>
    ctx.addIssue({ code: 'custom', path: [name.slice(0, 200)], message });
  for (const name of Object.keys(query)) {
    if (Object.hasOwn(listQuery, name)) continue;
    const key = metadataKeyOf(name);
    if (name === 'metadata') addIssue(name, 'must be written metadata.KEY=value, once for each key');
    else if (key === undefined) addIssue(name, unknownName(name, listQueryNames));
    else if (typeof query[name] !== 'string' || keys.has(key)) addIssue(name, 'must be given once');
    else keys.add(key);
    if (keys.size > METADATA_FILTERS_MAX)
      return addIssue('metadata', `must be at most ${METADATA_FILTERS_MAX} entries`);
  }
});

/** For descriptions of lists: generators make no working parameter of a map whose keys no schema lists. */
export const metadataFilter = `The filter \`metadata.KEY=value\`, such as \`metadata.order=4711\`, selects tokens with this entry in their metadata. It may be given once for each key, for at most ${METADATA_FILTERS_MAX} keys; upper and lower case are the same.`;

/** The entries of the metadata that a query asks for. */
export const metadataOf = (query: Record<string, unknown>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(query).flatMap(([name, value]) => {
      const key = metadataKeyOf(name);
      return key === undefined ? [] : [[key, value as string]];
    }),
  );
