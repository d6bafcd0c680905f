// Sessions: a backend lets one page create a few tokens, or type the security code of one card again, with a key that ends after
// some minutes.
import { pinBounds } from '../access/bound-targets.ts';
import { type Bound, shownBound, type StoredBound } from '../access/bounds.ts';
import { logRow } from '../../platform/db/audit-record.ts';
import {
  AppError,
  type FieldCode,
  FieldErrorCollector,
  invalidField,
  invalidInput,
  notFound,
} from '../../platform/base/errors.ts';
import { randomBase62, sessionPageDigest } from '../../platform/crypto/digest.ts';
import { newSessionKey } from '../access/api-keys.ts';
import { checkOrigins } from '../access/origins.ts';
import { getTransformOfNew } from '../access/rules.ts';
import type { Work } from '../access/work.ts';
import { findContainerWarning } from '../tokens/container-warnings.ts';
import { checkCardToUpdate } from '../tokens/security-codes.ts';
import { findTokenType } from '../tokens/token-types.ts';
import type { SessionsContext } from './context.ts';
import { findSession, insertSession, type StoredSession } from './rows.ts';

/** One page rarely needs more than a card and a second attempt. */
export const TOKENS_DEFAULT = 5;
export const TOKENS_MAX = 100;
/** Tries of a session for one card. A person mistypes a code once or twice; who guesses has more tries than that. */
export const TRIES_MAX = 3;
/** The type of a session for one card, which is no type of tokens. */
export const CODE_TYPE = 'cvc';
/** A person fills in a form in less; a stolen key is worth nothing after it. */
export const MINUTES_DEFAULT = 15;
export const MINUTES_MAX = 60;

/** 33 base62 characters: 196 bits. */
const SECRET_LENGTH = 33;

export type SessionInput = {
  allowed_origins: string[];
  types: string[];
  containers?: string[] | undefined;
  metadata?: Record<string, string> | undefined;
  bound_to?: Bound | undefined;
  max_tokens?: number | undefined;
  token_id?: string | undefined;
  expires_in_ms: number;
  return_url?: string | undefined;
};

/** A session on the wire. Undefined properties are left out. */
export type SessionRecord = {
  id: string;
  /** Only in the answer to the request that created it, as the address of the page. */
  session_key?: string;
  collect_url?: string;
  allowed_origins: string[];
  types: string[];
  containers: string[] | undefined;
  metadata: Record<string, string> | undefined;
  bound_to: Bound | undefined;
  max_tokens: number;
  token_id: string | undefined;
  tokens: string[];
  return_url: string | undefined;
  expires_at: string;
  created_at: string;
  created_by: string;
};

const recordOf = (row: StoredSession): SessionRecord => ({
  id: row.id,
  allowed_origins: row.allowed_origins,
  types: row.types,
  containers: row.container === null ? undefined : [row.container],
  metadata: (row.metadata as Record<string, string> | null) ?? undefined,
  bound_to: shownBound(row.bound_to as StoredBound | null),
  max_tokens: row.max_tokens,
  token_id: row.token_id ?? undefined,
  // A card whose code was typed twice is one token.
  tokens: [...new Set(row.token_ids)],
  return_url: row.return_url ?? undefined,
  expires_at: row.expires_at.toISOString(),
  created_at: row.created_at.toISOString(),
  created_by: row.created_by,
});

/** What a session for one card has in another way than one that creates tokens. @throws invalidInput with every problem. */
const checkKind = ({ token_id, types, containers, metadata, bound_to, max_tokens = TRIES_MAX }: SessionInput): void => {
  const problems = new FieldErrorCollector();
  const add = (name: string, sentence: string, code: FieldCode): void => problems.add([name], sentence, code);
  if (token_id === undefined) {
    if (types.includes(CODE_TYPE)) add('types', `must have ${CODE_TYPE} only with token_id`, 'not_allowed');
  } else {
    if (types.length !== 1 || types[0] !== CODE_TYPE)
      add('types', `must be ["${CODE_TYPE}"] with token_id`, 'not_allowed');
    if (containers) add('containers', 'must not be sent with token_id', 'not_allowed');
    if (metadata) add('metadata', 'must not be sent with token_id', 'not_allowed');
    if (bound_to) add('bound_to', 'must not be sent with token_id', 'not_allowed');
    if (max_tokens > TRIES_MAX) add('max_tokens', `must be from 1 to ${TRIES_MAX} with token_id`, 'too_large');
  }
  if (problems.count > 0) throw invalidInput(problems.errors);
};

/** The caller can give a session no more than it may do itself. @throws forbidden. */
const checkContainers = (work: Work, { types, containers }: SessionInput): void => {
  for (const container of containers ?? types.map((type) => findTokenType(type)?.container ?? '/'))
    getTransformOfNew(work, 'token:create', { container, hasMask: false });
};

/** The session ends with this key. @throws forbidden for a caller without one, such as a member. */
const keyOf = ({ caller }: Work): string => {
  if (!caller.key) throw new AppError('forbidden', 'Only an application creates sessions, with its API key.');
  return caller.key.public_id;
};

const checkReturnUrl = ({ return_url, allowed_origins }: SessionInput): void => {
  if (return_url !== undefined && !allowed_origins.includes(new URL(return_url).origin))
    throw invalidField('return_url', 'must be on one of the allowed origins');
};

/**
 * Creates a session with its key.
 * @param pagesUrl where the pages of the vault are served.
 * @throws invalidInput; notFound for the card; forbidden where the caller may not create such tokens, or update the card, itself.
 */
export const createSession = async (
  ctx: SessionsContext,
  work: Work,
  input: SessionInput,
  pagesUrl: string | undefined,
): Promise<SessionRecord> => {
  checkOrigins(ctx.config, input.allowed_origins, 'allowed_origins');
  checkReturnUrl(input);
  checkKind(input);
  const { token_id } = input;
  if (token_id === undefined) checkContainers(work, input);
  else await checkCardToUpdate(ctx, work, token_id);
  const key_id = keyOf(work);
  const { public_id, digest, key } = newSessionKey(ctx);
  const secret = input.return_url === undefined ? undefined : randomBase62(SECRET_LENGTH, ctx.randomBytes);
  const created_at = ctx.now();
  const row = {
    id: ctx.newUuid(),
    allowed_origins: input.allowed_origins,
    types: input.types,
    container: input.containers?.[0] ?? null,
    max_tokens: input.max_tokens ?? (token_id === undefined ? TOKENS_DEFAULT : TRIES_MAX),
    token_id: token_id ?? null,
    return_url: input.return_url ?? null,
    expires_at: new Date(created_at.getTime() + input.expires_in_ms),
    created_at,
    created_by: work.actor_id,
  };
  const asked = input.bound_to && { bound: input.bound_to, path: ['bound_to'] };
  const [bound_to] = await pinBounds(ctx, work.tenant_id, [asked]);
  const { metadata } = input;
  const warning = await findContainerWarning(ctx, work, input.containers ?? []);
  const made = await work.prismaTransaction(async (tx): Promise<SessionRecord> => {
    const page_digest = secret === undefined ? null : sessionPageDigest(ctx.pepper, secret);
    await insertSession(tx, { ...row, metadata, bound_to, key_id, public_id, digest, page_digest });
    tx.log(logRow(ctx, work, { operation: 'create', entity_type: 'session', entity_ids: [row.id] }));
    return {
      ...recordOf({ ...row, metadata: metadata ?? null, bound_to: bound_to ?? null, token_ids: [] }),
      session_key: key.reveal(),
      ...(secret !== undefined && { collect_url: `${pagesUrl}/collect/${secret}` }),
    };
  });
  if (warning !== undefined) work.warn(warning);
  return made;
};

/** Reads a session, with the ids of the tokens that it has created. @throws notFound. */
export const getSession = async (ctx: SessionsContext, work: Work, id: string): Promise<SessionRecord> => {
  const row = await findSession(work.db, id);
  if (!row) throw notFound('session');
  await work.log([logRow(ctx, work, { operation: 'read', entity_type: 'session', entity_ids: [id] })]);
  return recordOf(row);
};
