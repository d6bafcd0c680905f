// Changes a token by a merge patch, validated like a new token; deletes a token.
import {
  type ChangedColumns,
  lockFingerprints,
  lockToken,
  removeToken,
  updateToken,
} from './rows/token-transactions.ts';
import { type StoredToken } from './rows/token-row.ts';
import type { Work } from '../access/work.ts';
import type { Caller } from '../access/caller.ts';
import { type AskedBound, pinBounds } from '../access/bound-targets.ts';
import { boundSchema, isWithin } from '../access/bounds.ts';
import { countTokens } from '../access/daily-counts.ts';
import { isIntentId } from '../access/token-id.ts';
import { noteDecision } from '../access/decisions.ts';
import { limitOfReveal } from '../access/limits.ts';
import { type Transform } from '../access/access-rule.ts';
import { z } from 'zod';
import type { Permission } from '../access/permissions.ts';
import { boundOfUse, containersShown, decide, getTransform, visibilityOf, wouldDecide } from '../access/rules.ts';
import { type Disclosure, logRow } from '../../platform/db/audit-record.ts';
import type { TokensContext } from './context.ts';
import { fingerprint } from '../../platform/crypto/digest.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import {
  alreadyExists,
  AppError,
  FieldErrorCollector,
  forbidden,
  invalidField,
  invalidInput,
  notFound,
  payloadTooLarge,
  unprocessable,
} from '../../platform/base/errors.ts';
import { containerOfPrivacy, refuseUnknownAttributes } from './earlier-tokens.ts';
import { formatPath, isStorableText, type Json } from '../../platform/json/json.ts';
import { mergePatch } from '../../platform/json/merge-patch.ts';
import { getTokenRow, usesOf } from './read-tokens.ts';
import { toFieldError } from '../../platform/http/sentences.ts';
import { type Slices, stringifyInSlices } from '../../platform/json/slices.ts';
import { type Draft, parseTokenRequest } from './token-request.ts';
import {
  draftTools,
  hasMask,
  isMasked,
  type Kept,
  openToken,
  recordOfDraft,
  sealCvc,
  sealDraft,
  searchDigestsOf,
  type TokenRecord,
} from './tokens.ts';

/** The attributes of a patch: an absent one stays, null removes one. */
type Patch = Record<string, Json>;

const patchSchema = z.record(
  z.string(),
  z.custom<Json>(() => true),
);

/**
 * Changes a token. `data`, `mask` and `metadata` merge (RFC 7396), other attributes are replaced; `type` and `id` stay.
 * Mask, fingerprint, search indexes and deduplication are evaluated for the merged token.
 * What only a caller who sees the value may change shows it in another form, such as by a mask: it counts, and is logged, as a reveal.
 * @returns the token as a read would show it, at most with its masked value; without token:read its id and times.
 * @throws notFound; too_many_requests over a daily limit; forbidden, also for the new container; conflict where deduplication finds another token; invalidInput.
 */
export const changeToken = async (ctx: TokensContext, work: Work, id: string, body: unknown): Promise<TokenRecord> => {
  if (isIntentId(id)) throw unprocessable('A token intent cannot be changed. Create a token from it.');
  const patch = patchSchema.safeParse(body);
  if (!patch.success || Array.isArray(body)) throw invalidField('', 'the body must be an object', 'wrong_type');
  const unknown = new FieldErrorCollector();
  refuseUnknownAttributes(patch.data, patchNames, [], unknown);
  if (unknown.count > 0) throw invalidInput(unknown.errors);
  const keys = await ctx.keyring.tenantKeys(work.tenant_id);
  const asked = parsePatchedBound(patch.data);
  const [patched] = await pinBounds(ctx, work.tenant_id, [asked]);
  const newCvc = (patch.data['data'] as { cvc?: unknown } | null | undefined)?.cvc;
  const cvcKey = newCvc === undefined || newCvc === null ? undefined : await ctx.keyring.ephemeralKey();

  if (!isStorableText(id)) throw notFound('token');
  const change = (isCounted: boolean) =>
    work.transaction(async (tx): Promise<TokenRecord | 'reveals'> => {
      const row = await lockToken(tx, id, ctx.now());
      if (!row) throw notFound('token');
      getTransform(work, 'token:update', row);
      const kept = openToken(ctx, work.tenant_id, row, keys);
      const bound_to = Object.hasOwn(patch.data, 'bound_to') ? patched : (row.bound_to ?? undefined);
      if (!isWithin(bound_to, row.bound_to)) checkUnbinds(work, row, kept);
      const isShowing =
        showingAttributes.some((name) => Object.hasOwn(patch.data, name)) || mergesIntoValue(row, kept, patch.data);
      if (isShowing) checkSeesValue(work, row, kept);
      // Before the expressions are evaluated: even a refusal would tell something of the value.
      if (isShowing && !isCounted) return 'reveals';
      const draft = await ctx.accounts.runInTurns(work.tenant_id, draftOf(ctx, row, kept, patch.data, work.caller));
      const after: Placed = { id, type: row.type, container: draft.container, isMasked: isMasked(draft) };
      const transform = getTransform(work, 'token:update', after);
      // A rule that masks uses passes the value of the new mask to code.
      const usesMask = wouldDecide(work.caller, 'token:use', after) === 'mask';
      if (Object.hasOwn(patch.data, 'mask') && usesMask) throw forbidden('token:use');
      const before: Placed = { id, type: row.type, container: row.container, isMasked: hasMask(row, kept) };
      const isGaining = checkGain(work, before, after);
      if (isGaining && !isCounted) return 'reveals';
      const print = fingerprint(keys.digest, row.type, draft.fingerprintValue);
      const deduplicates = draft.deduplicate ?? work.caller.deduplicate_tokens;

      const isUnique = deduplicates && print !== row.fingerprint;
      if (isUnique) {
        const fingerprints = [{ fingerprint: print, fingerprint_expression: draft.fingerprint_expression, bound_to }];
        const { patterns: containers } = containersShown(work.caller, 'token:read');
        const equal = [...(await lockFingerprints(tx, { fingerprints, containers }, ctx.now())).values()].flat();
        // A token that the caller may not see is ignored: a conflict would confirm that the caller guessed its value.
        if (equal.some((other) => other.id !== id && isSeen(ctx, work, other, keys)))
          throw alreadyExists('Another token has this value, and deduplication was asked for.');
      }
      const at = ctx.now();
      const columns: ChangedColumns = {
        sealed: sealDraft(ctx, work.tenant_id, keys.data, draft, { id, fingerprint: print, bound_to }),
        fingerprint: print,
        fingerprint_expression: draft.fingerprint_expression,
        container: draft.container,
        metadata: draft.metadata,
        search_indexes: draft.search_indexes.length > 0 ? [...draft.search_indexes] : undefined,
        search_digests: searchDigestsOf(keys, draft),
        expires_at: draft.expires_at?.toISOString(),
        bound_to,
        masked: isMasked(draft),
        modified_at: at.toISOString(),
        modified_by: work.actor_id,
      };
      if (draft.cvc !== undefined && cvcKey)
        Object.assign(columns, sealCvc(ctx, work.tenant_id, cvcKey, { id, cvc: draft.cvc, at }));
      const { result, disclosure } = answerOf(work, draft, columns, transform, {
        id,
        uses: (await usesOf({ db: tx }, [{ id, bound_to }]))({ id, bound_to }),
        created_by: row.created_by ?? undefined,
        created_at: row.created_at.toISOString(),
        modified_by: columns.modified_by,
        modified_at: columns.modified_at,
      });
      await updateToken(tx, id, columns, cvcChange(kept, draft, newCvc));
      tx.log(
        logRow(ctx, work, {
          operation: 'update',
          entity_type: row.type,
          entity_ids: [id],
          entity: 'token',
          disclosure: isShowing || isGaining ? 'revealed' : disclosure,
        }),
      );
      return result;
    });
  const changed = await change(false);
  if (changed !== 'reveals') return changed;
  // Outside of the transaction, so that an attempt that fails then has counted.
  await countTokens(ctx, work, limitOfReveal(work), [id]);
  return (await change(true)) as TokenRecord;
};

/** These attributes are expressions over the data. Even whether such an expression can be evaluated reveals something of it. */
const showingAttributes = ['mask', 'fingerprint_expression', 'search_indexes'] as const;

/**
 * Whether a patch changes a part of a generic value. The fingerprint of the rest would reveal the other parts to a caller
 * who tries all their values. The parts of other types are fixed, and none of their fingerprints has few possible values.
 */
const mergesIntoValue = ({ type }: StoredToken, { data }: Kept, patch: Patch): boolean => {
  const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value);
  return type === 'token' && isObject(patch['data']) && isObject(data);
};

/** The container and the mask of a token, before or after a change. */
export type Placed = { id: string; type: string; container: string; isMasked: boolean };

const readingPermissions = ['token:read', 'token:search'] as const;

export const wouldShowMore = () =>
  new AppError(
    'forbidden',
    'This change would show more of the token than the caller may see. It needs an access rule that reveals the token where it is now.',
    { permission: 'token:read' },
  );

/** Whether the caller may see the unmasked value of a token. */
const seesValue = (work: Work, token: Placed): boolean =>
  readingPermissions.some(
    (permission) => visibilityOf(wouldDecide(work.caller, permission, token), token.isMasked) === 'value',
  );

/** @throws forbidden for a caller who may not see the unmasked value. */
const checkSeesValue = (work: Work, row: StoredToken, kept: Kept): void => {
  if (!seesValue(work, { id: row.id, type: row.type, container: row.container, isMasked: hasMask(row, kept) }))
    throw wouldShowMore();
};

/** Who removes or widens a bound could use more of the token than before: it takes a rule that reveals the token. @throws forbidden. */
const checkUnbinds = (work: Work, row: StoredToken, kept: Kept): void => {
  if (!seesValue(work, { id: row.id, type: row.type, container: row.container, isMasked: hasMask(row, kept) }))
    throw new AppError(
      'forbidden',
      'This change would let the value go further than its bound. It needs an access rule that reveals the token.',
      {
        permission: 'token:read',
        fieldErrors: [{ path: 'bound_to', sentence: 'must be within the bound of the token', code: 'not_allowed' }],
      },
    );
};

/** How much of a token a permission shows: 0 nothing, 1 the metadata, 2 the masked value, 3 the value. */
const degreeOf = (work: Work, permission: Permission, token: Placed): number => {
  const transform = wouldDecide(work.caller, permission, token);
  if (transform === undefined) return 0;
  // Without a rule, a use passes the value to code even if the token has a mask.
  if (permission === 'token:use' && transform === 'default') return 3;
  return { nothing: 1, masked: 2, value: 3 }[visibilityOf(transform, token.isMasked)];
};

/**
 * Refuses a change after which the caller could see or use more of the token than before: a move to another container, or
 * the removal of a mask. A caller who may see the value may gain other ways to read it. To gain a use is always refused.
 * @returns whether the caller gains a way to read the value. @throws forbidden.
 */
export const checkGain = (work: Work, before: Placed, after: Placed): boolean => {
  const gains = (permission: Permission): boolean =>
    degreeOf(work, permission, after) > degreeOf(work, permission, before);
  const isFreer = !isWithin(boundOfUse(work.caller, after), boundOfUse(work.caller, before));
  if (gains('token:use') || (isFreer && degreeOf(work, 'token:use', after) > 0)) throw forbidden('token:use');
  // A caller who sees a card's value by a search does not see its security code. A read would show it.
  if (gains('token:read') && (before.type === 'card' || !seesValue(work, before))) throw wouldShowMore();
  if (gains('token:search') && !seesValue(work, before)) throw wouldShowMore();
  return readingPermissions.some(gains);
};

/** Whether the caller may see at least the mask of a token. */
const isSeen = (ctx: TokensContext, work: Work, row: StoredToken, keys: TenantKeys): boolean => {
  const transform = wouldDecide(work.caller, 'token:read', row);
  if (transform === undefined || transform === 'redact') return false;
  // The statement left out a large value. Without it, assume that the token has no mask of its own.
  const kept = row.sealed === null ? { mask: undefined } : openToken(ctx, work.tenant_id, row, keys);
  return visibilityOf(transform, hasMask(row, kept)) !== 'nothing';
};

/** The response to a change: what a read would show, at most with the masked value. */
const answerOf = (
  work: Work,
  draft: Draft,
  columns: ChangedColumns,
  transform: Transform,
  made: Parameters<typeof recordOfDraft>[4],
): { result: TokenRecord; disclosure: Disclosure } => {
  const { tenant_id } = work;
  const target = { id: made.id, container: draft.container };
  const read = decide(work, 'token:read', target);
  if (read === undefined) {
    const { id, created_at, modified_at } = made;
    return { result: { id, tenant_id, created_at, modified_at }, disclosure: 'none' };
  }
  const isNothing = visibilityOf(read, isMasked(draft)) === 'nothing';
  const shown = { transform: isNothing ? 'redact' : transform, isPrintShown: !isNothing } as const;
  const result = recordOfDraft(tenant_id, draft, shown, columns, made);
  const isMaskShown = result.data !== undefined;
  noteDecision(work, 'token:read', target, isNothing ? 'nothing' : 'masked', draft);
  noteDecision(work, 'token:update', target, isMaskShown ? 'masked' : 'nothing', draft);
  return { result, disclosure: isMaskShown ? 'masked' : 'none' };
};

const mergedAttributes = ['data', 'mask', 'metadata'] as const;
const replacedAttributes = [
  'containers',
  'search_indexes',
  'fingerprint_expression',
  'deduplicate_token',
  'expires_at',
] as const;

/** The bound of a patch, which replaces that of the token as a whole; undefined for none, and for null. @throws invalidInput. */
const parsePatchedBound = (patch: Patch): AskedBound | undefined => {
  const given = patch['bound_to'] ?? undefined;
  if (given === undefined) return undefined;
  const parsed = boundSchema.safeParse(given);
  if (parsed.success) return { bound: parsed.data, path: ['bound_to'] };
  const fieldErrors = parsed.error.issues.map((issue) => {
    const { sentence, code } = toFieldError(issue, given);
    return { path: formatPath(['bound_to', ...(issue.path as (string | number)[])]), sentence, code };
  });
  throw invalidInput(fieldErrors);
};

/** `type` and `id` are accepted and ignored: a client may send a whole record back. */
const patchNames: ReadonlySet<string> = new Set(['id', 'type', 'bound_to', ...mergedAttributes, ...replacedAttributes]);

/** What makes drafts of stored tokens. */
export type DraftContext = Pick<TokensContext, 'config' | 'now' | 'expressionEnvironment'>;

/**
 * Applies the patch and validates the result like a new token. Pauses between the steps, each of which reads all of the data.
 * @throws invalidInput with every invalid field.
 */
export function* draftOf(
  ctx: DraftContext,
  row: StoredToken,
  kept: Kept,
  patch: Patch,
  { allows_absent_paths }: Pick<Caller, 'allows_absent_paths'> = {},
): Slices<Draft> {
  const request: Record<string, Json> = {
    type: row.type,
    data: kept.data,
    containers: [row.container],
    // An empty list, so that a token without indexes does not get the default ones of its type.
    search_indexes: row.search_indexes ?? [],
  };
  if (kept.mask !== undefined) request['mask'] = kept.mask;
  if (row.metadata) request['metadata'] = row.metadata;
  if (row.fingerprint_expression !== null) request['fingerprint_expression'] = row.fingerprint_expression;
  if (row.expires_at) request['expires_at'] = row.expires_at.toISOString();

  const bytesBefore = yield* bytesOf(request);
  for (const name of mergedAttributes) {
    const part = patch[name];
    if (part === undefined) continue;
    const merged = yield* mergePatch(request[name], part);
    if (merged === undefined) delete request[name];
    else request[name] = merged;
  }
  for (const name of replacedAttributes) {
    const part = patch[name];
    if (name === 'containers' && Array.isArray(part) && part.length === 0) continue;
    if (part === null) delete request[name];
    else if (part !== undefined) request[name] = part;
  }
  // Many small patches must not exceed the size limit of a create. A token that does already may still shrink.
  const bytes = yield* bytesOf(request);
  if (bytes > ctx.config.bodyBytesMax && bytes > bytesBefore)
    throw payloadTooLarge(`The token must be at most ${ctx.config.bodyBytesMax} bytes.`);
  const problems = new FieldErrorCollector();
  const privacyContainer = containerOfPrivacy(patch, row.container, [], problems);
  if (privacyContainer !== undefined) request['containers'] = [privacyContainer];
  if (request['data'] === undefined) problems.add(['data'], 'must not be taken away', 'required');
  // An expression that was accepted before stays valid where the patch changes neither it nor the data.
  const isReread = ['data', ...showingAttributes].some((name) => patch[name] !== undefined);
  const tools = { ...draftTools(ctx), allowsAbsentPaths: !isReread || allows_absent_paths === true };
  const draft = problems.count > 0 ? undefined : yield* parseTokenRequest(request, [], problems, tools);
  if (!draft) throw invalidInput(problems.errors);
  return draft;
}

function* bytesOf(request: Record<string, Json>): Slices<number> {
  return Buffer.byteLength(yield* stringifyInSlices(request));
}

/** A security code belongs to its card number: a new number without a new code removes the code. */
const cvcChange = (kept: Kept, draft: Draft, newCvc: unknown): 'keep' | 'remove' | 'replace' => {
  if (draft.type.name !== 'card') return 'keep';
  if (draft.cvc !== undefined) return 'replace';
  const number = (data: Json) => (data as { number: string }).number;
  return newCvc === null || number(kept.data) !== number(draft.data) ? 'remove' : 'keep';
};

/** Attempts to delete a token whose container changes concurrently. */
const DELETE_TRIES_MAX = 3;

/** Deletes a token with its security code and its links. @throws notFound; forbidden; unavailable. */
export const deleteToken = async (ctx: TokensContext, work: Work, id: string): Promise<void> => {
  for (let tries = 0; tries < DELETE_TRIES_MAX; tries += 1) {
    const row = await getTokenRow(ctx, work, id);
    if (decide(work, 'token:delete', row) === undefined) throw forbidden('token:delete');
    const log = logRow(ctx, work, { operation: 'delete', entity_type: row.type, entity_ids: [id], entity: 'token' });
    if (await work.transaction((tx) => removeToken(tx, id, row.container, log))) return;
  }
  throw notFound('token');
};
