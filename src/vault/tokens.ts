// The barrier: the only place where plaintext and rows meet. Seals on the way in, opens on the way out, and decides how
// much of a token a caller sees. Log rows are committed with the write, and before a read's plaintext leaves.
import type { Caller } from '../access/caller.ts';
import { decide, getTransform, type Transform } from '../access/rules.ts';
import { logRow, messageOf } from '../audit/record.ts';
import type { Context } from '../context.ts';
import { fingerprint, searchDigest } from '../crypto/digest.ts';
import type { TenantKeys } from '../crypto/keyring.ts';
import { type Binding, keyIdOf, open, seal, SealBroken } from '../crypto/seal.ts';
import type { NewToken, StoredToken } from '../db/hot.ts';
import { AppError, forbidden, internal, notFound } from '../errors.ts';
import { evaluateCreateTime, evaluateShape } from './expressions.ts';
import { isStorableText, type Json } from './json.ts';
import { chosenTokenId, type Draft, type DraftTools } from './token-request.ts';
import { findTokenType } from './token-types.ts';

/** Draws of an alias before a UUID stands in (background.md section 3). */
const ALIAS_DRAWS_MAX = 5;

/** A token as the wire knows it. What is absent or undefined is left out. */
export type TokenRecord = {
  id: string;
  tenant_id: string;
  type: string;
  data?: Json;
  mask?: Json;
  fingerprint?: string;
  fingerprint_expression?: string;
  containers: string[];
  metadata?: Record<string, string>;
  search_indexes?: string[];
  expires_at?: string;
  created_by?: string;
  created_at?: string;
  modified_by?: string;
  modified_at?: string;
  _extras?: { deduplicated: boolean };
};

/** What is sealed of a token: data and mask together, so that neither can be exchanged for another row's. */
type Sealed = { data: Json; mask?: Json };

export const draftTools = (ctx: Pick<Context, 'now' | 'expressionEnvironment'>): DraftTools => ({
  now: ctx.now,
  environment: ctx.expressionEnvironment,
});

const bindingOf = (
  ctx: Pick<Context, 'environment'>,
  caller: Caller,
  token: { id: string; type: string },
  field: 'sealed' | 'cvc',
): Binding => ({
  environment: ctx.environment,
  tenant_id: caller.tenant_id,
  record: 'token',
  id: token.id,
  type: token.type,
  field,
});

/**
 * Seals drafts and writes them with their log rows: all or nothing.
 * @returns the records in the drafts' order, with masked data.
 * @throws forbidden; conflict for an id that is taken; unavailable.
 */
export const createTokens = async (ctx: Context, caller: Caller, drafts: Draft[]): Promise<TokenRecord[]> => {
  const transforms = drafts.map((draft) =>
    getTransform(caller, 'token:create', draft.id === undefined ? draft : { id: draft.id, container: draft.container }),
  );
  const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
  const cvcKey = drafts.some((draft) => draft.cvc !== undefined) ? await ctx.keyring.ephemeralKey() : undefined;
  const created_at = ctx.now();

  const sealDraft = (draft: Draft, id: string, print: string): NewToken => {
    const type = draft.type.name;
    const kept: Sealed = draft.mask === undefined ? { data: draft.data } : { data: draft.data, mask: draft.mask };
    const row: NewToken = {
      id,
      type,
      sealed: seal(
        keys.data,
        bindingOf(ctx, caller, { id, type }, 'sealed'),
        JSON.stringify(kept),
        ctx.randomBytes,
      ).toString('base64'),
      fingerprint: print,
      fingerprint_expression: draft.fingerprint_expression,
      containers: [draft.container],
      metadata: draft.metadata,
      expires_at: draft.expires_at?.toISOString(),
      created_at: created_at.toISOString(),
      created_by: caller.actor_id,
      actor_type: caller.actor_type,
      log_id: ctx.newLogId(),
      message: TOKEN_CREATED,
    };
    if (draft.search_indexes.length > 0) {
      row.search_indexes = [...draft.search_indexes];
      row.search_digests = draft.searchValues.map((value) => searchDigest(keys.digest, value));
    }
    if (draft.cvc !== undefined && cvcKey) {
      const binding = bindingOf(ctx, caller, { id, type }, 'cvc');
      row.cvc_sealed = seal(cvcKey, binding, draft.cvc, ctx.randomBytes).toString('base64');
      row.cvc_expires_at = new Date(created_at.getTime() + ctx.config.cvcTtlMs).toISOString();
    }
    return row;
  };

  const prints = drafts.map((draft) => fingerprint(keys.digest, draft.type.name, draft.fingerprintValue));
  const hasAliases = drafts.some((draft) => draft.alias !== undefined);

  for (let draw = 0; ; draw += 1) {
    const rows = drafts.map((draft, index) => sealDraft(draft, idOf(ctx, draft, draw), prints[index] as string));
    try {
      return await insert(ctx, caller, drafts, rows, transforms, keys);
    } catch (error) {
      const taken = error instanceof AppError && error.code === 'conflict';
      if (!taken || !hasAliases || draw === ALIAS_DRAWS_MAX) throw error;
    }
  }
};

const TOKEN_CREATED = messageOf('create', 'token');

const idOf = (ctx: Context, draft: Draft, draw: number): string => {
  if (draft.id !== undefined) return draft.id;
  if (draft.alias === undefined || draw === ALIAS_DRAWS_MAX) return ctx.newUuid();
  const alias = evaluateCreateTime(draft.alias, { data: draft.data }, ctx.expressionEnvironment);
  const id = chosenTokenId.safeParse(typeof alias === 'number' ? String(alias) : alias);
  return id.success ? id.data : ctx.newUuid();
};

const insert = async (
  ctx: Context,
  caller: Caller,
  drafts: Draft[],
  rows: NewToken[],
  transforms: Transform[],
  keys: TenantKeys,
): Promise<TokenRecord[]> => {
  const db = ctx.db.for(caller);
  const deduplicates = (draft: Draft): boolean => draft.deduplicate ?? caller.deduplicate_tokens;
  const created = (index: number): TokenRecord =>
    recordOfDraft(caller, drafts[index] as Draft, rows[index] as NewToken, transforms[index] as Transform);

  const wanted = new Set<string>();
  for (const [index, draft] of drafts.entries())
    if (deduplicates(draft)) wanted.add((rows[index] as NewToken).fingerprint as string);
  if (wanted.size === 0) {
    await db.insertTokens(rows);
    return rows.map((_, index) => created(index));
  }

  const records: TokenRecord[] = [];
  await db.insertDeduplicated([...wanted], ctx.now(), (existing) => {
    const fresh: NewToken[] = [];
    const logs: ReturnType<typeof logRow>[] = [];
    const made = new Map<string, TokenRecord>();
    for (const [index, draft] of drafts.entries()) {
      const row = rows[index] as NewToken;
      const print = row.fingerprint as string;
      const found = existing.get(print);
      // Whoever chose another expression chose what its fingerprint says: it is no proof that the data is the same.
      const before = found?.fingerprint_expression === row.fingerprint_expression ? found : undefined;
      const known = `${print} ${row.fingerprint_expression}`;
      if (deduplicates(draft) && before) {
        const { record, revealed } = recordOfExisting(ctx, caller, before, keys);
        if (revealed) logs.push(readLog(ctx, caller, before));
        records.push({ ...record, _extras: { deduplicated: true } });
      } else if (deduplicates(draft) && made.has(known)) {
        records.push({ ...(made.get(known) as TokenRecord), _extras: { deduplicated: true } });
      } else {
        const record = created(index);
        fresh.push(row);
        if (deduplicates(draft)) made.set(known, record);
        records.push(deduplicates(draft) ? { ...record, _extras: { deduplicated: false } } : record);
      }
    }
    return { rows: fresh, logs };
  });
  return records;
};

const recordOfDraft = (caller: Caller, draft: Draft, row: NewToken, transform: Transform): TokenRecord => ({
  id: row.id,
  tenant_id: caller.tenant_id,
  type: row.type,
  // What a create answers is never more than the masked value, whatever a rule would reveal to a reader.
  data: transform === 'redact' ? undefined : draft.masked,
  mask: draft.mask ?? (draft.type.mask === undefined || transform === 'redact' ? undefined : draft.masked),
  fingerprint: row.fingerprint,
  fingerprint_expression: row.fingerprint_expression,
  containers: row.containers,
  metadata: row.metadata,
  search_indexes: row.search_indexes ?? [],
  expires_at: row.expires_at,
  created_by: caller.actor_id,
  created_at: row.created_at,
});

/** A token that deduplication found, as its finder may see it: whole under token:read, masked at most; else only that it is there. */
const recordOfExisting = (
  ctx: Context,
  caller: Caller,
  row: StoredToken,
  keys: TenantKeys,
): { record: TokenRecord; revealed: boolean } => {
  const transform = transformOf(caller, 'token:read', row);
  if (transform === undefined) {
    const { id, type, fingerprint: print, containers } = row;
    const record = { id, tenant_id: caller.tenant_id, type, fingerprint: print ?? undefined, containers };
    return { record, revealed: false };
  }
  const kept = openToken(ctx, caller, row, keys);
  return { record: recordOfRow(ctx, caller, row, kept, transform === 'redact' ? 'redact' : 'mask'), revealed: true };
};

/** The decision over a stored token: each of its containers must be reached; the first decides how much is shown. */
const transformOf = (caller: Caller, permission: 'token:read', row: StoredToken): Transform | undefined => {
  const transforms = row.containers.map((container) => decide(caller, permission, { id: row.id, container }));
  return transforms.includes(undefined) ? undefined : transforms[0];
};

const openToken = (ctx: Context, caller: Caller, row: StoredToken, keys: TenantKeys): Sealed => {
  try {
    const key = keys.find(keyIdOf(row.sealed));
    if (!key) throw new SealBroken();
    return JSON.parse(open(key, bindingOf(ctx, caller, row, 'sealed'), row.sealed).toString('utf8')) as Sealed;
  } catch (error) {
    // A value that does not open was changed, moved or lost its key: somebody must look.
    ctx.log.error({ alarm: 'seal_broken', tenant_id: caller.tenant_id, token_id: row.id }, 'a token does not open');
    throw internal(error);
  }
};

const recordOfRow = (
  ctx: Context,
  caller: Caller,
  row: StoredToken,
  kept: Sealed,
  transform: Transform,
  cvc?: string,
): TokenRecord => {
  const defaultMask = findTokenType(row.type)?.mask;
  const shape = kept.mask ?? defaultMask;
  const masked = shape === undefined ? undefined : evaluateShape(shape, { data: kept.data }, ctx.expressionEnvironment);
  const whole = cvc === undefined ? kept.data : { ...(kept.data as Record<string, Json>), cvc };
  const shown: Record<Transform, Json | undefined> = {
    redact: undefined,
    mask: masked,
    reveal: whole,
    default: shape === undefined ? kept.data : masked,
  };
  return {
    id: row.id,
    tenant_id: caller.tenant_id,
    type: row.type,
    data: shown[transform],
    mask: kept.mask ?? (defaultMask === undefined || transform === 'redact' ? undefined : masked),
    fingerprint: row.fingerprint ?? undefined,
    fingerprint_expression: row.fingerprint_expression ?? undefined,
    containers: row.containers,
    metadata: row.metadata ?? undefined,
    search_indexes: row.search_indexes ?? [],
    expires_at: row.expires_at?.toISOString(),
    created_by: row.created_by ?? undefined,
    created_at: row.created_at.toISOString(),
    modified_by: row.modified_by ?? undefined,
    modified_at: row.modified_at?.toISOString(),
  };
};

const readLog = (ctx: Context, caller: Caller, row: { id: string; type: string }) =>
  logRow(ctx, caller, { operation: 'read', entity_type: row.type, entity_id: row.id, entity: 'token' });

/**
 * Reads one token back under the caller's rules. Its log row is committed before the answer exists.
 * @throws notFound for an unknown, expired or foreign id, all alike; forbidden; unavailable when the log cannot be written.
 */
export const getToken = async (ctx: Context, caller: Caller, id: string): Promise<TokenRecord> => {
  const db = ctx.db.for(caller);
  const row = isStorableText(id) ? await db.findToken(id, ctx.now()) : undefined;
  if (!row) throw notFound('token');
  const transform = transformOf(caller, 'token:read', row);
  if (transform === undefined) throw forbidden('token:read');
  const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
  const kept = openToken(ctx, caller, row, keys);
  const cvc = transform === 'reveal' && row.type === 'card' ? await findCvc(ctx, caller, row) : undefined;
  await db.insertLogs([readLog(ctx, caller, row)]);
  return recordOfRow(ctx, caller, row, kept, transform, cvc);
};

/** The card's security code while it lives; undefined once its time or its key is gone. */
const findCvc = async (ctx: Context, caller: Caller, row: StoredToken): Promise<string | undefined> => {
  const sealed = await ctx.db.for(caller).findCvc(row.id, ctx.now());
  if (!sealed) return undefined;
  try {
    const key = await ctx.keyring.findEphemeralKey(keyIdOf(sealed));
    return key && open(key, bindingOf(ctx, caller, row, 'cvc'), sealed).toString('utf8');
  } catch (error) {
    if (!(error instanceof SealBroken)) throw error;
    ctx.log.error({ alarm: 'seal_broken', tenant_id: caller.tenant_id, token_id: row.id }, 'a cvc does not open');
    throw internal(error);
  }
};
