// Changing a token: a merge patch over what it holds, checked as if it were made anew; and ending it.
import { z } from 'zod';
import { noteDecision } from '../access/answer-record.ts';
import type { Caller } from '../access/caller.ts';
import type { Permission } from '../access/permissions.ts';
import { containersShown, decide, getTransform, type Transform, visibilityOf, wouldDecide } from '../access/rules.ts';
import { type Disclosure, logRow } from '../audit/record.ts';
import type { Context } from '../context.ts';
import { fingerprint } from '../crypto/digest.ts';
import type { TenantKeys } from '../crypto/keyring.ts';
import type { ChangedToken, PlannedChange, StoredToken } from '../db/hot.ts';
import { AppError, conflict, forbidden, invalidInput, notFound, payloadTooLarge } from '../errors.ts';
import { containerOfPrivacy, refuseUnknownAttributes } from './earlier-tokens.ts';
import { isStorableText, type Json } from './json.ts';
import { mergePatch } from './merge-patch.ts';
import { getTokenRow } from './read-tokens.ts';
import { createProblems, type Draft, parseTokenRequest } from './token-request.ts';
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

/** An attribute of a patch: absent stays, null is taken away. */
type Patch = Record<string, Json>;

const patchSchema = z.record(
  z.string(),
  z.custom<Json>(() => true),
);

/**
 * Changes a token. `data`, `mask` and `metadata` merge (RFC 7396), other attributes are replaced; `type` and `id` stay.
 * Mask, fingerprint, indexes and deduplication are those of the merged token.
 * @returns the token, as much of it as a reading would show and masked at most; without token:read its id and times.
 * @throws notFound; forbidden, also for the container it goes to; conflict where deduplication finds another token; invalidInput.
 */
export const changeToken = async (ctx: Context, caller: Caller, id: string, body: unknown): Promise<TokenRecord> => {
  const patch = patchSchema.safeParse(body);
  if (!patch.success || Array.isArray(body)) throw invalidInput({ '': ['the body must be an object'] });
  const unknown = createProblems();
  refuseUnknownAttributes(patch.data, patchNames, [], unknown);
  if (unknown.count > 0) throw invalidInput(unknown.errors);
  const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
  const newCvc = (patch.data['data'] as { cvc?: unknown } | null | undefined)?.cvc;
  const cvcKey = newCvc === undefined || newCvc === null ? undefined : await ctx.keyring.ephemeralKey();

  const plan = (row: StoredToken): PlannedChange<TokenRecord> => {
    getTransform(caller, 'token:update', row);
    const kept = openToken(ctx, caller.tenant_id, row, keys);
    if (showingAttributes.some((name) => Object.hasOwn(patch.data, name)) || mergesIntoValue(row, kept, patch.data))
      checkSeesValue(caller, row, kept);
    const draft = draftOf(ctx, row, kept, patch.data);
    const after: Placed = { id, type: row.type, container: draft.container, isMasked: isMasked(draft) };
    const transform = getTransform(caller, 'token:update', after);
    // A rule that masks uses gives code what the new mask shows.
    const usesMask = wouldDecide(caller, 'token:use', after) === 'mask';
    if (Object.hasOwn(patch.data, 'mask') && usesMask) throw forbidden('token:use');
    checkGain(caller, { id, type: row.type, container: row.container, isMasked: hasMask(row, kept) }, after);
    const print = fingerprint(keys.digest, row.type, draft.fingerprintValue);
    const deduplicates = draft.deduplicate ?? caller.deduplicate_tokens;

    const change = (equal: StoredToken[]) => {
      // One that the caller does not see is not there: a conflict would tell that its value was guessed.
      const seen = equal.some((other) => isSeen(ctx, caller, other, keys));
      if (seen) throw conflict('Another token has this value, and deduplication was asked for.');
      const at = ctx.now();
      const columns: ChangedToken['row'] = {
        sealed: sealDraft(ctx, caller.tenant_id, keys.data, id, draft),
        fingerprint: print,
        fingerprint_expression: draft.fingerprint_expression,
        container: draft.container,
        metadata: draft.metadata,
        search_indexes: draft.search_indexes.length > 0 ? [...draft.search_indexes] : undefined,
        search_digests: searchDigestsOf(keys, draft),
        expires_at: draft.expires_at?.toISOString(),
        masked: isMasked(draft),
        modified_at: at.toISOString(),
        modified_by: caller.actor_id,
      };
      if (draft.cvc !== undefined && cvcKey) {
        columns.cvc_sealed = sealCvc(ctx, caller.tenant_id, cvcKey, id, draft.cvc);
        columns.cvc_expires_at = new Date(at.getTime() + ctx.config.cvcTtlMs).toISOString();
      }
      const { result, disclosure } = answerOf(caller, draft, columns, transform, {
        id,
        created_by: row.created_by ?? undefined,
        created_at: row.created_at.toISOString(),
        modified_by: columns.modified_by,
        modified_at: columns.modified_at,
      });
      const log = logRow(ctx, caller, {
        operation: 'update',
        entity_type: row.type,
        entity_ids: [id],
        entity: 'token',
        disclosure,
      });
      const changed = { row: columns, cvc: cvcChange(kept, draft, newCvc), log, answer: caller.keep?.(result) };
      return { changed, result };
    };
    const fingerprints = [{ fingerprint: print, fingerprint_expression: draft.fingerprint_expression }];
    const isUnique = deduplicates && print !== row.fingerprint;
    const containers = containersShown(caller, 'token:read').patterns;
    return { unique: isUnique ? { fingerprints, containers } : undefined, change };
  };

  const result = isStorableText(id) ? await ctx.db.for(caller).changeToken(id, ctx.now(), plan) : undefined;
  if (result === undefined) throw notFound('token');
  return result;
};

/**
 * What is made of the data, in ways that the caller chooses: whether such an expression can be evaluated tells of the data too.
 */
const showingAttributes = ['mask', 'fingerprint_expression', 'search_indexes'] as const;

/**
 * Whether a patch changes a part of a value of any shape: the fingerprint of what is left would tell the other part to a
 * caller who tries all values of it. The parts of other types are fixed, and none of their fingerprints has few values.
 */
const mergesIntoValue = ({ type }: StoredToken, { data }: Kept, patch: Patch): boolean => {
  const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value);
  return type === 'token' && isObject(patch['data']) && isObject(data);
};

/** Where a token is, before or after a change. */
type Placed = { id: string; type: string; container: string; isMasked: boolean };

const readingPermissions = ['token:read', 'token:search'] as const;

const wouldShowMore = () =>
  new AppError(
    'forbidden',
    'This change would show more of the token than the caller may see. It needs an access rule that reveals the token where it is now.',
    { permission: 'token:read' },
  );

/** Whether the caller sees the value of a token as it is. */
const seesValue = (caller: Caller, token: Placed): boolean =>
  readingPermissions.some(
    (permission) => visibilityOf(wouldDecide(caller, permission, token), token.isMasked) === 'value',
  );

/** @throws forbidden for a caller who does not see the value. */
const checkSeesValue = (caller: Caller, row: StoredToken, kept: Kept): void => {
  if (!seesValue(caller, { id: row.id, type: row.type, container: row.container, isMasked: hasMask(row, kept) }))
    throw wouldShowMore();
};

/** How much a permission gives of a token: nothing at all, its metadata, its masked value, or its value. */
const degreeOf = (caller: Caller, permission: Permission, token: Placed): number => {
  const transform = wouldDecide(caller, permission, token);
  if (transform === undefined) return 0;
  // A use gives code the value of a token with a mask as well.
  if (permission === 'token:use' && transform === 'default') return 3;
  return { nothing: 1, masked: 2, value: 3 }[visibilityOf(transform, token.isMasked)];
};

/**
 * Refuses a change after which the caller could see or use more of the token than before: by a move to another container, or by
 * taking a mask away. Who sees the value already may see it elsewhere too; who may not use it, may not elsewhere either.
 * @throws forbidden.
 */
const checkGain = (caller: Caller, before: Placed, after: Placed): void => {
  const gains = (permission: Permission): boolean =>
    degreeOf(caller, permission, after) > degreeOf(caller, permission, before);
  if (gains('token:use')) throw forbidden('token:use');
  // A search that shows a card's value does not show its security code, and a reading does.
  if (gains('token:read') && (before.type === 'card' || !seesValue(caller, before))) throw wouldShowMore();
  if (gains('token:search') && !seesValue(caller, before)) throw wouldShowMore();
};

/** Whether the caller sees at least the mask of a token. */
const isSeen = (ctx: Context, caller: Caller, row: StoredToken, keys: TenantKeys): boolean => {
  const transform = wouldDecide(caller, 'token:read', row);
  if (transform === undefined || transform === 'redact') return false;
  // Too large to be opened beside others: its own mask, if it has one, counts as none.
  const kept = row.sealed === null ? { mask: undefined } : openToken(ctx, caller.tenant_id, row, keys);
  return visibilityOf(transform, hasMask(row, kept)) !== 'nothing';
};

/** What a change answers: nothing that reading the token would not show, and its value masked at most. */
const answerOf = (
  caller: Caller,
  draft: Draft,
  columns: ChangedToken['row'],
  transform: Transform,
  made: Parameters<typeof recordOfDraft>[4],
): { result: TokenRecord; disclosure: Disclosure } => {
  const { tenant_id } = caller;
  const target = { id: made.id, container: draft.container };
  const read = decide(caller, 'token:read', target);
  if (read === undefined) {
    const { id, created_at, modified_at } = made;
    return { result: { id, tenant_id, created_at, modified_at }, disclosure: 'none' };
  }
  const isNothing = visibilityOf(read, isMasked(draft)) === 'nothing';
  const shown = { transform: isNothing ? 'redact' : transform, isPrintShown: !isNothing } as const;
  const result = recordOfDraft(tenant_id, draft, shown, columns, made);
  const isMaskShown = result.data !== undefined;
  noteDecision(caller, 'token:read', target, isNothing ? 'nothing' : 'masked', draft);
  noteDecision(caller, 'token:update', target, isMaskShown ? 'masked' : 'nothing', draft);
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

/** `type` and `id` stay: a record that is sent back may have them. */
const patchNames: ReadonlySet<string> = new Set(['id', 'type', ...mergedAttributes, ...replacedAttributes]);

/** The token with the patch in it, checked like a request for a new one. @throws invalidInput naming every bad place. */
const draftOf = (ctx: Context, row: StoredToken, kept: Kept, patch: Patch): Draft => {
  const request: Record<string, Json> = {
    type: row.type,
    data: kept.data,
    containers: [row.container],
    // To have none is a choice too: the default of the type must not come back.
    search_indexes: row.search_indexes ?? [],
  };
  if (kept.mask !== undefined) request['mask'] = kept.mask;
  if (row.metadata) request['metadata'] = row.metadata;
  if (row.fingerprint_expression !== null) request['fingerprint_expression'] = row.fingerprint_expression;
  if (row.expires_at) request['expires_at'] = row.expires_at.toISOString();

  const bytesBefore = bytesOf(request);
  for (const name of mergedAttributes) {
    const part = patch[name];
    if (part === undefined) continue;
    const merged = mergePatch(request[name], part);
    if (merged === undefined) delete request[name];
    else request[name] = merged;
  }
  for (const name of replacedAttributes) {
    const part = patch[name];
    if (name === 'containers' && Array.isArray(part) && part.length === 0) continue;
    if (part === null) delete request[name];
    else if (part !== undefined) request[name] = part;
  }
  // Small patches must not add up to what no create may bring; what is that large already may still be made smaller.
  const bytes = bytesOf(request);
  if (bytes > ctx.config.bodyBytesMax && bytes > bytesBefore)
    throw payloadTooLarge(`The token must be at most ${ctx.config.bodyBytesMax} bytes.`);
  const problems = createProblems();
  const privacyContainer = containerOfPrivacy(patch, row.container, [], problems);
  if (privacyContainer !== undefined) request['containers'] = [privacyContainer];
  if (request['data'] === undefined) problems.add(['data'], 'must not be taken away');
  const draft = problems.count > 0 ? undefined : parseTokenRequest(request, [], problems, draftTools(ctx));
  if (!draft) throw invalidInput(problems.errors);
  return draft;
};

const bytesOf = (request: Record<string, Json>): number => Buffer.byteLength(JSON.stringify(request));

/** A security code belongs to the number it came with: another number without a code of its own has none. */
const cvcChange = (kept: Kept, draft: Draft, newCvc: unknown): ChangedToken['cvc'] => {
  if (draft.type.name !== 'card') return 'keep';
  if (draft.cvc !== undefined) return 'replace';
  const number = (data: Json) => (data as { number: string }).number;
  return newCvc === null || number(kept.data) !== number(draft.data) ? 'remove' : 'keep';
};

/** A container that changes again and again while a delete looks at it is no accident. */
const DELETE_TRIES_MAX = 3;

/** Ends a token, with its security code and its links. @throws notFound; forbidden; unavailable. */
export const deleteToken = async (ctx: Context, caller: Caller, id: string): Promise<void> => {
  for (let tries = 0; tries < DELETE_TRIES_MAX; tries += 1) {
    const row = await getTokenRow(ctx, caller, id);
    if (decide(caller, 'token:delete', row) === undefined) throw forbidden('token:delete');
    const log = logRow(ctx, caller, { operation: 'delete', entity_type: row.type, entity_ids: [id], entity: 'token' });
    if (await ctx.db.for(caller).deleteToken(id, row.container, log)) return;
  }
  throw notFound('token');
};
