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
    id: z.string().meta({ description: 'The token. A UUID unless its creator chose one.', example: cardTokenId }),
    tenant_id: uuid('The tenant that owns the token.', TENANT_ID),
    type: z.string().optional().meta({
      description: 'A token type; further ones may come.',
      'x-extensible-enum': tokenTypeNames,
      example: 'card',
    }),
    data: z.any().optional().meta({
      description:
        'As much of the data as the caller may see: masked, or revealed by an access rule. Left out where that is nothing.',
      example: cardToken.data,
    }),
    mask: z.any().optional().meta({
      description: "The caller's mask as it was sent, or the default mask of the type, evaluated.",
      example: cardToken.data,
    }),
    fingerprint: z.string().optional().meta({
      description:
        'Equal for equal values of a type within a tenant, never across tenants. Left out for callers who see less than the masked value.',
      example: cardToken.fingerprint,
    }),
    fingerprint_expression: z
      .string()
      .optional()
      .meta({ description: 'What the fingerprint is made of.', example: cardToken.fingerprint_expression }),
    containers: z
      .array(z.string().meta({ example: '/pci/high/' }))
      .optional()
      .meta({ description: 'Where the token is. Permissions may be limited to containers.' }),
    metadata: tokenMetadata
      .optional()
      .meta({ description: 'What the creator noted beside the token, in plain text.', example: cardToken.metadata }),
    search_indexes: z
      .array(z.string().meta({ example: '{{ data.number | last4 }}' }))
      .optional()
      .meta({ description: 'The expressions that the token can be found by.' }),
    expires_at: date('The token cannot be read from then on.').optional(),
    created_by: uuid('The application that made the token.', APPLICATION_ID).optional(),
    created_at: date('When the token was made.').optional(),
    modified_by: uuid('The application that changed the token last.', APPLICATION_ID).optional(),
    modified_at: date('When the token was changed last.').optional(),
    _extras: z
      .object({
        deduplicated: z.boolean().meta({ description: 'Whether the token was there already.', example: false }),
      })
      .meta({ id: 'TokenExtras', description: 'What is said about the request beside the token.' })
      .optional()
      .meta({ description: 'Present when deduplication was asked for.' }),
  })
  .meta({
    id: 'Token',
    description:
      'A token as far as the caller may see it. A change answers a caller without `token:read` with `id`, `tenant_id` and times alone.',
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
export const metadataFilter =
  'A filter `metadata.KEY=value` keeps the tokens with that entry of the metadata, as `metadata.order=4711`; it may be given once for each key, and case does not matter.';

/** The entries of the metadata that a query asks for. */
export const metadataOf = (query: Record<string, unknown>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(query).flatMap(([name, value]) => {
      const key = metadataKeyOf(name);
      return key === undefined ? [] : [[key, value as string]];
    }),
  );
