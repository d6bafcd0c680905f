// The barrier: the only place where plaintext and rows meet. Seals on the way in, opens on the way out, and shows as much
// of a token as a decision allows. Knows no request and writes nothing.
import type { FoundCvc, NewToken, SealedToken, StoredToken } from './rows/token-row.ts';
import type { ShownUses } from './rows/token-uses.ts';
import type { Work } from '../access/work.ts';
import { isIntentId } from '../access/token-id.ts';
import { noteDecisionOverNew } from '../access/decisions.ts';
import { type Transform, type Visibility } from '../access/access-rule.ts';
import { transformUnder, visibilityOf, wouldDecide } from '../access/rules.ts';
import { type Bound, shownBound, type StoredBound } from '../access/bounds.ts';
import type { TokensContext } from './context.ts';
import { metadataDigest, searchDigest, shownDigest } from '../../platform/crypto/digest.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import {
  boundOfToken,
  type Binding,
  type BoundColumns,
  isSealedUnder,
  keyIdOf,
  open,
  seal,
  SealBroken,
  type SealingKey,
} from '../../platform/crypto/seal.ts';
import { internal } from '../../platform/base/errors.ts';
import { noteTampered } from '../../platform/db/signed-rows.ts';
import { evaluateShape } from './expressions/expressions.ts';
import type { Json } from '../../platform/json/json.ts';
import { createMeter, type Meter } from './expressions/meter.ts';
import { showsNumberByParts } from './number-parts.ts';
import { findShownParts } from './shown-parts.ts';
import type { Draft, DraftTools } from './token-request.ts';
import { type CardDetails, cardDetailsOf } from './card-details.ts';
import { findTokenType } from './token-types.ts';

/** A token as the wire knows it. What is absent or undefined is left out. */
export type TokenRecord = {
  id: string;
  /** Left out of answers to public callers. */
  tenant_id?: string;
  type?: string;
  data?: Json | undefined;
  mask?: Json | undefined;
  /** Details of a card, for readers of its value or of the mask of its type. */
  card?: CardDetails | undefined;
  fingerprint?: string | undefined;
  fingerprint_expression?: string | undefined;
  containers?: string[];
  metadata?: Record<string, string> | undefined;
  search_indexes?: string[];
  expires_at?: string | undefined;
  bound_to?: Bound | undefined;
  /** Counted uses, of a token whose bound has `max_uses`. */
  uses?: number | undefined;
  /** What was charged, of a token whose allowance has `max_total`. */
  spent?: number | undefined;
  created_by?: string | undefined;
  created_at?: string;
  modified_by?: string | undefined;
  modified_at?: string | undefined;
  _extras?: { deduplicated: boolean };
};

/** What is sealed of a token: data and mask together, so that neither can be exchanged for another row's. */
export type Kept = { data: Json; mask?: Json };

/** @param work whose caller may be a public one; left out where no public caller gets. */
export const draftTools = (
  ctx: Pick<TokensContext, 'now' | 'expressionEnvironment'>,
  work?: Pick<Work, 'caller'>,
): DraftTools => ({
  now: ctx.now,
  environment: ctx.expressionEnvironment,
  meter: createMeter(),
  publicAccess: work?.caller.publicAccess,
  allowsAbsentPaths: work?.caller.allows_absent_paths ?? false,
});

type SealContext = Pick<TokensContext, 'environment' | 'randomBytes'>;

export type OpenContext = Pick<TokensContext, 'environment' | 'log' | 'metrics'>;

const bindingOf = (
  ctx: Pick<TokensContext, 'environment'>,
  tenant_id: string,
  token: { id: string; type: string },
  field: 'sealed' | 'cvc',
  row: BoundColumns,
): Binding => ({
  environment: ctx.environment,
  tenant_id,
  record: 'token',
  id: token.id,
  type: token.type,
  field,
  row,
});

/** A draft's data and mask under the tenant's key, bound to the columns of its row, in base64. */
export const sealDraft = (
  ctx: SealContext,
  tenant_id: string,
  key: SealingKey,
  draft: Draft,
  { id, fingerprint, bound_to }: { id: string; fingerprint: string; bound_to: StoredBound | undefined },
): string => {
  const kept: Kept = draft.mask === undefined ? { data: draft.data } : { data: draft.data, mask: draft.mask };
  const { container, expires_at, fingerprint_expression } = draft;
  const row = boundOfToken({ container, expires_at, fingerprint, fingerprint_expression, bound_to });
  const binding = bindingOf(ctx, tenant_id, { id, type: draft.type.name }, 'sealed', row);
  return seal(key, binding, JSON.stringify(kept), ctx.randomBytes).toString('base64');
};

const cvcBindingOf = (ctx: Pick<TokensContext, 'environment'>, tenant_id: string, id: string, expires_at: Date) =>
  bindingOf(ctx, tenant_id, { id, type: 'card' }, 'cvc', { expires_at });

/** The columns of a security code that was sent now, sealed under a short-lived key. */
export const sealCvc = (
  ctx: SealContext & Pick<TokensContext, 'config'>,
  tenant_id: string,
  key: SealingKey,
  { id, cvc, at }: { id: string; cvc: string; at: Date },
): Pick<NewToken, 'cvc_sealed' | 'cvc_expires_at'> => {
  const expires_at = new Date(at.getTime() + ctx.config.cvcTtlMs);
  const sealed = seal(key, cvcBindingOf(ctx, tenant_id, id, expires_at), cvc, ctx.randomBytes);
  return { cvc_sealed: sealed.toString('base64'), cvc_expires_at: expires_at.toISOString() };
};

/** Everything a search can find a draft by, as keyed digests; undefined where that is nothing. */
export const searchDigestsOf = (keys: TenantKeys, draft: Draft): string[] | undefined => {
  const digests = draft.searchValues.map((value) => searchDigest(keys.digest, value));
  for (const [name, value] of Object.entries(draft.metadata ?? {}))
    digests.push(metadataDigest(keys.digest, name, value));
  for (const [part, value] of findShownParts(draft.mask ?? draft.type.mask, draft.masked))
    digests.push(shownDigest(keys.digest, part, value));
  return digests.length === 0 ? undefined : [...new Set(digests)];
};

/**
 * Opens a value, which verifies its row too: id, type, and the columns that decide who reads it.
 * @param row with `masked`, verifies that column too: searches trust it.
 * @throws internal, after an alarm, where the value or a column was changed or moved, or the key is missing.
 */
export const openToken = (ctx: OpenContext, tenant_id: string, row: SealedToken, keys: TenantKeys): Kept => {
  try {
    // Nearly all are under the newest key: it is asked first.
    const key = isSealedUnder(keys.data, row.sealed) ? keys.data : keys.find(keyIdOf(row.sealed));
    if (!key) throw new SealBroken();
    const binding = bindingOf(ctx, tenant_id, row, 'sealed', boundOfToken(row));
    const kept = JSON.parse(open(key, binding, row.sealed).toString('utf8')) as Kept;
    if (row.masked === false && hasMask(row, kept)) throw new SealBroken();
    return kept;
  } catch (error) {
    noteTampered(ctx, { table: 'tokens', tenant_id, row_id: row.id });
    throw internal(error);
  }
};

/**
 * The security codes that were found with their cards, while they live, by token id. One that does not open counts as gone,
 * after an alarm: a process that has not heard of a promoted database yet seals under a key that another one has replaced.
 */
export const openCvcs = async (
  ctx: OpenContext & Pick<TokensContext, 'keyring' | 'now'>,
  { tenant_id, record }: Pick<Work, 'tenant_id' | 'record'>,
  rows: readonly ({ id: string } & Partial<FoundCvc>)[],
): Promise<Map<string, string>> => {
  const cvcs = new Map<string, string>();
  const now = ctx.now();
  // Cards of the same half minute share a key, which is looked up once.
  const keys = new Map<string, SealingKey | undefined>();
  const keyOf = async (sealed: Buffer): Promise<SealingKey | undefined> => {
    const keyId = keyIdOf(sealed);
    if (!keys.has(keyId)) keys.set(keyId, await ctx.keyring.findEphemeralKey(keyId));
    return keys.get(keyId);
  };
  for (const { id, cvc_sealed, cvc_expires_at } of rows) {
    if (!cvc_sealed || !cvc_expires_at || cvc_expires_at <= now) continue;
    try {
      const key = await keyOf(cvc_sealed);
      if (!key) continue;
      const binding = cvcBindingOf(ctx, tenant_id, id, cvc_expires_at);
      cvcs.set(id, open(key, binding, cvc_sealed).toString('utf8'));
      record?.readableUntil(cvc_expires_at);
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
      noteTampered(ctx, { table: 'token_cvcs', tenant_id, row_id: id });
    }
  }
  return cvcs;
};

/** Whether a draft has a mask, of its own or of its type. */
export const isMasked = ({ type, mask }: Pick<Draft, 'type' | 'mask'>): boolean =>
  mask !== undefined || type.mask !== undefined;

/** Whether a caller sees fingerprints of tokens as this draft is: who sees at least the mask. */
export const seesFingerprint = (work: Work, draft: Draft, id: string): boolean => {
  const target = { id, container: draft.container };
  const transform = wouldDecide(work.caller, 'token:read', target);
  const hasOne = isMasked(draft);
  if (transform === undefined || visibilityOf(transform, hasOne) === 'nothing') return false;
  noteDecisionOverNew(work, 'token:read', { ...target, hasMask: hasOne }, 'masked');
  return true;
};

/** Whether a token has a mask, of its own or of its type. */
export const hasMask = ({ type }: Pick<StoredToken, 'type'>, { mask }: Pick<Kept, 'mask'>): boolean =>
  mask !== undefined || findTokenType(type)?.mask !== undefined;

type ShownRow = Pick<StoredToken, 'type' | 'bound_to'>;

/** How much a decision shows a reader of an opened token. */
export const visibilityOfToken = (transform: Transform | undefined, row: ShownRow, kept: Kept): Visibility =>
  visibilityOf(transformUnder(row.bound_to, transform), hasMask(row, kept));

export type ShowOptions = {
  /** Joins what is revealed. */
  cvc?: string | undefined;
  /** Budget of all masks of one answer; without it the token has one of its own. */
  meter?: Meter;
  /** Whether the reader may see the fingerprint. Without it, a reader who sees at least the mask. */
  isPrintShown?: boolean;
  uses?: ShownUses | undefined;
  /** The value goes to code or a destination that its bound was asked about. */
  isUse?: boolean;
};

/** The data of an opened token as a decision shows it; undefined for nothing. @throws ExpressionError where a shared meter is spent. */
export const shownData = (
  ctx: Pick<TokensContext, 'expressionEnvironment'>,
  row: ShownRow,
  kept: Kept,
  decided: Transform,
  { cvc, meter, isUse = false }: ShowOptions = {},
): { data: Json | undefined; mask: Json | undefined } => {
  const transform = isUse ? decided : transformUnder(row.bound_to, decided);
  if (transform === 'redact') return { data: undefined, mask: kept.mask };
  const type = findTokenType(row.type);
  // A mask of the caller's own is shown as it was sent: it is evaluated only where its value is.
  if (transform === 'reveal') {
    const data = cvc === undefined ? kept.data : { ...(kept.data as Record<string, Json>), cvc };
    return { data, mask: kept.mask ?? type?.maskedOf(kept.data) };
  }
  if (kept.mask !== undefined)
    return { data: evaluateShape(kept.mask, { data: kept.data }, ctx.expressionEnvironment, meter), mask: kept.mask };
  const masked = type?.maskedOf(kept.data);
  return { data: masked === undefined && transform === 'default' ? kept.data : masked, mask: masked };
};

/** A mask of the caller's own may hide what the details show: only readers of the value get them then. */
const detailsOf = (
  type: string,
  { data, mask }: { data: Json; mask?: Json | undefined },
  visibility: Visibility,
): CardDetails | undefined => {
  if (type !== 'card' || visibility === 'nothing' || (visibility === 'masked' && mask !== undefined)) return undefined;
  return cardDetailsOf(data, visibility === 'value');
};

/** The value of a record, and the mask of the caller's own. Without one, data and mask of a masked record are the default mask. */
type Hidden = { data: Json; mask?: Json | undefined };

/** What the default mask shows of a hidden member. Members that it shows as they are, such as the expiry, are no digits of the number. */
const hiddenParts = (masked: Json | undefined, value: Json): Json | undefined => {
  if (typeof masked !== 'object' || masked === null) return masked;
  const whole = value as Record<string, Json>;
  return Object.fromEntries(
    Object.entries(masked as Record<string, Json>).filter(([name, part]) => part !== whole[name]),
  );
};

/** What of a record can hold parts of its value: all that a client wrote. */
const writtenOf = (record: TokenRecord, hidden: Hidden): (Json | undefined)[] => {
  const { id, data, mask, metadata, containers, search_indexes, fingerprint_expression } = record;
  const shown = hidden.mask === undefined ? [hiddenParts(mask, hidden.data)] : [data, mask];
  return [id, ...shown, metadata, containers, search_indexes, fingerprint_expression];
};

/**
 * Adds the fingerprint to a record whose reader may see it: the only place that does. A masked record that shows ten digits of a
 * card number has none: together they are the number, which about 1,000 creates would find.
 */
const withPrint = (record: TokenRecord, fingerprint: string | undefined, hidden: Hidden | undefined): TokenRecord =>
  hidden && showsNumberByParts(hidden.data, writtenOf(record, hidden)) ? record : { ...record, fingerprint };

/** A stored token as its reader may see it. */
export const recordOfRow = (
  ctx: Pick<TokensContext, 'expressionEnvironment'>,
  tenant_id: string,
  row: StoredToken,
  kept: Kept,
  transform: Transform,
  options: ShowOptions = {},
): TokenRecord => {
  const visibility = options.isUse
    ? visibilityOf(transform, hasMask(row, kept))
    : visibilityOfToken(transform, row, kept);
  const record: TokenRecord = {
    id: row.id,
    tenant_id,
    type: row.type,
    ...shownData(ctx, row, kept, transform, options),
    card: detailsOf(row.type, kept, visibility),
    fingerprint_expression: row.fingerprint_expression ?? undefined,
    containers: [row.container],
    metadata: row.metadata ?? undefined,
    search_indexes: row.search_indexes ?? [],
    expires_at: row.expires_at?.toISOString(),
    bound_to: shownBound(row.bound_to),
    ...options.uses,
    created_by: row.created_by ?? undefined,
    created_at: row.created_at.toISOString(),
    modified_by: row.modified_by ?? undefined,
    modified_at: row.modified_at?.toISOString(),
  };
  if (isIntentId(row.id) || !(options.isPrintShown ?? visibility !== 'nothing')) return record;
  const isHidden = visibility !== 'value' && hasMask(row, kept);
  return withPrint(record, row.fingerprint ?? undefined, isHidden ? kept : undefined);
};

/**
 * What a write answers of a draft: never more than the masked value, whatever a rule would reveal to a reader. A mask of
 * the caller's own comes back as it was sent; the default mask of a type, evaluated.
 */
const shownOfDraft = (draft: Draft, transform: Transform): { data: Json | undefined; mask: Json | undefined } => ({
  data: transform === 'redact' ? undefined : draft.masked,
  mask: draft.mask ?? (draft.type.mask === undefined || transform === 'redact' ? undefined : draft.masked),
});

/** The columns of a written token that its record repeats. */
type WrittenColumns = Pick<
  NewToken,
  'container' | 'fingerprint' | 'fingerprint_expression' | 'metadata' | 'search_indexes' | 'expires_at' | 'bound_to'
>;

/**
 * What a write answers: the draft as its writer may see it, with its columns, and who made and changed it.
 * @param isPrintShown whether the writer may see the fingerprint: it tells whether a value that was guessed is right.
 */
export const recordOfDraft = (
  tenant_id: string,
  draft: Draft,
  { transform, isPrintShown }: { transform: Transform; isPrintShown: boolean },
  columns: WrittenColumns,
  made: Pick<TokenRecord, 'created_by' | 'created_at' | 'modified_by' | 'modified_at'> & {
    id: string;
    uses: ShownUses;
  },
): TokenRecord => {
  const { id, uses, ...times } = made;
  const record: TokenRecord = {
    id,
    tenant_id,
    type: draft.type.name,
    ...shownOfDraft(draft, transform),
    card: detailsOf(draft.type.name, draft, transform === 'redact' ? 'nothing' : 'masked'),
    fingerprint_expression: columns.fingerprint_expression,
    containers: [columns.container],
    metadata: columns.metadata,
    search_indexes: columns.search_indexes ?? [],
    expires_at: columns.expires_at,
    bound_to: shownBound(columns.bound_to),
    ...uses,
    ...times,
  };
  return isPrintShown && !isIntentId(id)
    ? withPrint(record, columns.fingerprint, isMasked(draft) ? draft : undefined)
    : record;
};
