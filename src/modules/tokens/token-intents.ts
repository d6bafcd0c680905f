// Token intents: tokens for a day, to try a card before it is kept. A creation turns one into a token, once.
import type { Work } from '../access/work.ts';
import { isIntentId, newIntentId } from '../access/token-id.ts';
import { AppError, FieldErrorCollector, invalidField, invalidInput, notFound } from '../../platform/base/errors.ts';
import type { Json } from '../../platform/json/json.ts';
import { NOT_SUPPORTED } from '../../platform/base/unknown-names.ts';
import { type CardDetails, cardDetailsOf } from './card-details.ts';
import { checkGain, deleteToken, wouldShowMore } from './change-token.ts';
import type { TokensContext } from './context.ts';
import { createTokens } from './create-tokens.ts';
import { getToken, getTokenRow } from './read-tokens.ts';
import { type Draft, parseTokenRequest } from './token-request.ts';
import { draftTools, hasMask, isMasked, openToken, type TokenRecord } from './tokens.ts';

export const INTENT_HOURS = 24;
const INTENT_MS = INTENT_HOURS * 3_600_000;

/** An intent on the wire. Undefined properties are left out. */
export type IntentRecord = {
  id: string;
  /** Left out of answers to public callers, as are the two last. */
  tenant_id: string | undefined;
  type: string | undefined;
  card: CardDetails | undefined;
  expires_at: string | undefined;
  created_by: string | undefined;
  created_at: string | undefined;
};

const noIntent = () => notFound('token intent');

/** The same sentence for an id that is none and for an intent that is gone. */
const asIntent = <T>(reading: Promise<T>): Promise<T> =>
  reading.catch((error: unknown) => {
    throw error instanceof AppError && error.code === 'not_found' ? noIntent() : error;
  });

const recordOf = ({ id, tenant_id, type, card, expires_at, created_by, created_at }: TokenRecord): IntentRecord => ({
  id,
  tenant_id,
  type,
  card,
  expires_at,
  created_by,
  created_at,
});

/** Its fingerprint is of a random value: no search and no deduplication finds an intent by what it holds. */
const intentOf = (ctx: TokensContext, draft: Draft): Draft => ({
  ...draft,
  id: newIntentId(ctx.newUuid()),
  fingerprintValue: ctx.newUuid(),
  search_indexes: [],
  searchValues: [],
  deduplicate: false,
  expires_at: new Date(ctx.now().getTime() + INTENT_MS),
});

/** Creates an intent. A security code lives as long as that of any card. @throws as createTokens; invalidInput. */
export const createIntent = async (
  ctx: TokensContext,
  work: Work,
  { type, data }: { type: string; data?: unknown },
): Promise<IntentRecord> => {
  const problems = new FieldErrorCollector();
  const request = { type, ...(data !== undefined && { data: data as Json }) };
  const parsing = parseTokenRequest(request, [], problems, draftTools(ctx, work));
  const draft = await ctx.accounts.runInTurns(work.tenant_id, parsing);
  if (!draft) throw invalidInput(problems.errors);
  // What a page typed is no secret to it.
  const shown = work.caller.publicAccess && type === 'card' ? { card: cardDetailsOf(draft.data, false) } : {};
  const answer = ([record]: TokenRecord[]): IntentRecord => ({ ...recordOf(record as TokenRecord), ...shown });
  return createTokens(ctx, work, [intentOf(ctx, draft)], { answer });
};

/** @throws notFound; as getToken. */
export const getIntent = async (ctx: TokensContext, work: Work, id: string): Promise<IntentRecord> => {
  if (!isIntentId(id)) throw noIntent();
  return recordOf(await asIntent(getToken(ctx, work, id)));
};

/** @throws notFound; as deleteToken. */
export const deleteIntent = async (ctx: TokensContext, work: Work, id: string): Promise<void> => {
  if (!isIntentId(id)) throw noIntent();
  await asIntent(deleteToken(ctx, work, id));
};

/** Whether a token request names an intent in place of data. */
export const namesIntent = (request: unknown): request is Record<string, Json> =>
  typeof request === 'object' &&
  request !== null &&
  ((request as Record<string, unknown>)['token_intent_id'] ?? null) !== null;

/** @throws invalidInput for what a creation from an intent does not take. */
const checkRequest = (work: Work, request: Record<string, Json>): void => {
  const problems = new FieldErrorCollector();
  const { token_intent_id: intent_id, id } = request;
  if (typeof intent_id !== 'string')
    problems.add(['token_intent_id'], 'must be the id of a token intent', 'wrong_type');
  if (work.caller.publicAccess) problems.add(['token_intent_id'], 'must not be sent with a public key', 'not_allowed');
  // Expressions over the data could show it.
  for (const name of ['data', 'mask', 'search_indexes', 'fingerprint_expression'])
    if ((request[name] ?? null) !== null) problems.add([name], 'must not be sent with token_intent_id', 'not_allowed');
  if (typeof id === 'string' && id.includes('{{'))
    problems.add(['id'], 'must be no expression, as it would read the data of the intent', 'bad_expression');
  if ((request['encrypted'] ?? null) !== null) problems.add(['encrypted'], NOT_SUPPORTED, 'not_supported');
  if (problems.count > 0) throw invalidInput(problems.errors);
};

/**
 * Creates a token of the data of an intent, without its security code, and ends the intent.
 * @throws notFound for an unknown intent and a used one; forbidden where the caller could see or use more of the token than of the
 * intent; as createTokens; invalidInput.
 */
export const createFromIntent = async (
  ctx: TokensContext,
  work: Work,
  request: Record<string, Json>,
): Promise<TokenRecord> => {
  checkRequest(work, request);
  const { token_intent_id, ...given } = request;
  const intent_id = token_intent_id as string;
  if (!isIntentId(intent_id)) throw noIntent();
  const row = await asIntent(getTokenRow(ctx, work, intent_id));
  const kept = openToken(ctx, work.tenant_id, row, await ctx.keyring.tenantKeys(work.tenant_id));
  if (given['type'] !== undefined && given['type'] !== row.type)
    throw invalidField('type', 'must be that of the token intent, or left out', 'not_allowed');
  const isPlaced = (given['containers'] ?? given['privacy'] ?? null) !== null;
  const wanted = { ...given, type: row.type, data: kept.data, ...(!isPlaced && { containers: [row.container] }) };
  const problems = new FieldErrorCollector();
  const parsing = parseTokenRequest(wanted, [], problems, draftTools(ctx, work));
  const parsed = await ctx.accounts.runInTurns(work.tenant_id, parsing);
  if (!parsed) throw invalidInput(problems.errors);
  const draft = { ...parsed, id: parsed.id ?? ctx.newUuid() };
  const before = { id: row.id, type: row.type, container: row.container, isMasked: hasMask(row, kept) };
  const after = { id: draft.id, type: row.type, container: draft.container, isMasked: isMasked(draft) };
  if (checkGain(work, before, after)) throw wouldShowMore();
  const intent = { id: row.id, type: row.type, container: row.container };
  return createTokens(ctx, work, [draft], { intent, answer: ([record]) => record as TokenRecord });
};
