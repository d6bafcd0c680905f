// Drafts become tokens: sealed, written with their log rows, all of them or none. Deduplication, links to a parent and the
// answer of an idempotent request are written in the same transaction.
import type { Caller } from '../access/caller.ts';
import { allOrNothing, noteDecision } from '../access/answer-record.ts';
import { containersShown, getTransform, getTransformOfNew, type Transform, wouldDecide } from '../access/rules.ts';
import {
  disclosureOf,
  linkLogRow,
  type LoggedToken,
  messageOf,
  TOKEN_ASSOCIATED,
  tokenLogRows,
} from '../audit/record.ts';
import type { Context } from '../context.ts';
import { fingerprint } from '../crypto/digest.ts';
import type { TenantKeys } from '../crypto/keyring.ts';
import type { ChosenTokens, Fingerprint, NewToken, NewTokenLog, StoredToken } from '../db/hot.ts';
import { AppError, conflict, invalidField, invalidInput, payloadTooLarge } from '../errors.ts';
import { ExpressionError } from './expression-error.ts';
import type { Json } from './json.ts';
import { createMeter, type Meter } from './meter.ts';
import { getTokenRow } from './read-tokens.ts';
import { createProblems, type Draft, parseTokenRequest } from './token-request.ts';
import {
  draftTools,
  isMasked,
  openToken,
  recordOfDraft,
  recordOfRow,
  sealCvc,
  sealDraft,
  searchDigestsOf,
  seesFingerprint,
  type TokenRecord,
  visibilityOfToken,
} from './tokens.ts';

/** Draws of an alias before a UUID stands in (background.md section 3). */
const ALIAS_DRAWS_MAX = 5;

const TOKEN_CREATED = messageOf('create', 'token');

/** What is written with the tokens, and what is made of them. */
export type CreateOptions<T> = {
  /** The tokens become children of this one, also those that deduplication finds. */
  parent?: { id: string; type: string } | undefined;
  /** The answer to the caller, from the records in the drafts' order. Kept with the tokens where the request is idempotent. */
  answer: (records: TokenRecord[]) => T;
};

/**
 * Seals drafts and writes them with their log rows: all or nothing.
 * @throws forbidden; conflict for an id that is taken; notFound for a parent that is gone; unavailable.
 */
export const createTokens = async <T>(
  ctx: Context,
  caller: Caller,
  drafts: Draft[],
  options: CreateOptions<T>,
): Promise<T> => {
  const transforms = drafts.map((draft) =>
    getTransformOfNew(caller, 'token:create', {
      ...(draft.id !== undefined && { id: draft.id }),
      container: draft.container,
      hasMask: isMasked(draft),
    }),
  );
  const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
  const cvcKey = drafts.some((draft) => draft.cvc !== undefined) ? await ctx.keyring.ephemeralKey() : undefined;
  const prints = drafts.map((draft) => fingerprint(keys.digest, draft.type.name, draft.fingerprintValue));
  const hasAliases = drafts.some((draft) => draft.drawId !== undefined);

  for (let draw = 0; ; draw += 1) {
    const at = ctx.now();
    const created_at = at.toISOString();
    // The tokens of a type share a row of the log.
    const logIds = new Map<string, string>();
    const rows = drafts.map((draft, index): NewToken => {
      const id = idOf(ctx, draft, draw);
      const type = draft.type.name;
      let log_id = logIds.get(type);
      if (log_id === undefined) logIds.set(type, (log_id = ctx.newLogId(at)));
      const row: NewToken = {
        id,
        type,
        sealed: sealDraft(ctx, caller.tenant_id, keys.data, id, draft),
        fingerprint: prints[index],
        fingerprint_expression: draft.fingerprint_expression,
        container: draft.container,
        metadata: draft.metadata,
        search_digests: searchDigestsOf(keys, draft),
        expires_at: draft.expires_at?.toISOString(),
        masked: isMasked(draft),
        created_at,
        created_by: caller.actor_id,
        log_id,
      };
      if (draft.search_indexes.length > 0) row.search_indexes = [...draft.search_indexes];
      if (draft.cvc !== undefined && cvcKey) {
        row.cvc_sealed = sealCvc(ctx, caller.tenant_id, cvcKey, id, draft.cvc);
        row.cvc_expires_at = new Date(at.getTime() + ctx.config.cvcTtlMs).toISOString();
      }
      return row;
    });
    try {
      return await allOrNothing(caller, (writer) => insert(ctx, writer, { drafts, rows, transforms, keys }, options));
    } catch (error) {
      const taken = error instanceof AppError && error.code === 'conflict';
      if (!taken || !hasAliases || draw === ALIAS_DRAWS_MAX) throw error;
    }
  }
};

const idOf = (ctx: Context, draft: Draft, draw: number): string =>
  draft.id ?? (draw === ALIAS_DRAWS_MAX ? undefined : draft.drawId?.()) ?? ctx.newUuid();

/** Drafts of one request that are written together with others: as many values as can be shown, whatever their size. */
const UNIQUE_TOGETHER_MAX = 10;

type Sealed = { drafts: Draft[]; rows: NewToken[]; transforms: Transform[]; keys: TenantKeys };

const insert = async <T>(ctx: Context, caller: Caller, sealed: Sealed, options: CreateOptions<T>): Promise<T> => {
  const { drafts, rows } = sealed;
  const wanted = new Map<string, Fingerprint>();
  for (const [index, draft] of drafts.entries())
    if (deduplicates(caller, draft)) {
      const print = rows[index] as Fingerprint;
      wanted.set(nameOf(print), print);
    }
  const shown = containersShown(caller, 'token:read');

  if (options.parent === undefined && caller.keep === undefined) {
    if (wanted.size === 0) {
      await ctx.db.for(caller).insertTokens(rows, createdBy(caller));
      noteCreated(caller, rows);
      return options.answer(rows.map((_, index) => recordOfNew(caller, sealed, index)));
    }
    // The statement decides which equal tokens count. A rule that it cannot follow is followed by `choose`.
    const isFollowed = shown.isExact && !(shown.hasMaskRule && drafts.some(({ type }) => type.mask === undefined));
    if (isFollowed && drafts.length <= UNIQUE_TOGETHER_MAX)
      return insertUnique(ctx, caller, sealed, shown.patterns, options);
  }

  let answer: { of: T } | undefined;
  const unique = { fingerprints: [...wanted.values()], containers: shown.patterns };
  await ctx.db.for(caller).insertTokensTogether(unique, ctx.now(), (findEqual) => {
    const { records, chosen } = choose(ctx, caller, sealed, findEqual);
    const of = options.answer(records);
    answer = { of };
    const linked = options.parent === undefined ? chosen : withLinks(ctx, caller, options.parent, records, chosen);
    return { ...linked, answer: caller.keep?.(of) };
  });
  return (answer as { of: T } | undefined as { of: T }).of;
};

/** What the create of a draft answers. */
const recordOfNew = (caller: Caller, { drafts, rows, transforms }: Sealed, index: number): TokenRecord => {
  const draft = drafts[index] as Draft;
  const row = rows[index] as NewToken;
  const shown = {
    transform: transforms[index] as Transform,
    isPrintShown: seesFingerprint(caller, draft, row.id),
  };
  const { id, created_by, created_at } = row;
  return recordOfDraft(caller.tenant_id, draft, shown, row, { id, created_by, created_at });
};

/** Looks for an equal token and writes where there is none, in one statement that requests share. */
const insertUnique = async <T>(
  ctx: Context,
  caller: Caller,
  sealed: Sealed,
  seen: string[],
  options: CreateOptions<T>,
): Promise<T> => {
  const { drafts, rows, keys } = sealed;
  const db = ctx.db.for(caller);
  const asked = rows.map((row, index) => (deduplicates(caller, drafts[index] as Draft) ? { ...row, seen } : row));
  const existing = await db.insertUniqueTokens(asked, createdBy(caller));
  noteCreated(
    caller,
    rows.filter((_, index) => existing[index] === undefined),
  );
  const written = new Map(rows.map(({ id }, index) => [id, index]));
  const others = [...new Set(existing.filter((id) => id !== undefined && !written.has(id)))] as string[];
  const found = new Map<string, SeenToken>();
  for (const row of await db.findRecords(others, ctx.now())) {
    // A budget for each mask: it was enough when the token was made, and what is written is not taken back.
    const equal = recordOfEqual(ctx, caller, row, keys, createMeter());
    if (equal) found.set(row.id, equal);
  }
  if (found.size > 0)
    await db.insertLogs(
      tokenLogRows(
        ctx,
        caller,
        'read',
        [...found.values()].map(({ logged }) => logged),
      ),
    );
  return options.answer(
    rows.map((_, index) => {
      const id = existing[index];
      const isAsked = deduplicates(caller, drafts[index] as Draft);
      if (id === undefined)
        return { ...recordOfNew(caller, sealed, index), ...(isAsked && { _extras: { deduplicated: false } }) };
      const twin = written.get(id);
      if (twin !== undefined) return { ...recordOfNew(caller, sealed, twin), _extras: { deduplicated: true } };
      // Deleted since: that it was there is all that is left to say.
      const gone = { id, tenant_id: caller.tenant_id, type: (drafts[index] as Draft).type.name, containers: [] };
      return { ...(found.get(id)?.record ?? gone), _extras: { deduplicated: true } };
    }),
  );
};

/** The link is a change of the parent, and logged as one. */
const withLinks = (
  ctx: Context,
  caller: Caller,
  parent: { id: string; type: string },
  records: TokenRecord[],
  chosen: ChosenTokens,
): ChosenTokens => {
  const child_ids = records.map(({ id }) => id);
  if (child_ids.includes(parent.id)) throw conflict('The parent has this value itself, and is not its own child.');
  const log = linkLogRow(ctx, caller, parent, TOKEN_ASSOCIATED);
  const links = { parent_id: parent.id, child_ids, created_at: log.created_at, created_by: caller.actor_id };
  return { ...chosen, logs: [...chosen.logs, log], links };
};

/** What the log says of the tokens that a caller creates. */
const createdBy = ({ actor_type, origin }: Caller): NewTokenLog => ({ actor_type, message: TOKEN_CREATED, ...origin });

const nameOf = ({ fingerprint: print, fingerprint_expression }: Fingerprint): string =>
  `${print} ${fingerprint_expression}`;

const deduplicates = (caller: Caller, draft: Draft): boolean => draft.deduplicate ?? caller.deduplicate_tokens;

/** Which drafts are tokens already, and which are written. */
const choose = (
  ctx: Context,
  caller: Caller,
  sealed: Sealed,
  findEqual: (of: Fingerprint) => StoredToken[],
): { records: TokenRecord[]; chosen: ChosenTokens } => {
  const { drafts, rows, keys } = sealed;
  const records: TokenRecord[] = [];
  const fresh: NewToken[] = [];
  const read = new Map<string, LoggedToken>();
  const made = new Map<string, TokenRecord>();
  const meter = createMeter();
  for (const [index, draft] of drafts.entries()) {
    const row = rows[index] as NewToken;
    const created = recordOfNew(caller, sealed, index);
    if (!deduplicates(caller, draft)) {
      fresh.push(row);
      records.push(created);
      continue;
    }
    const known = nameOf(row as Fingerprint);
    const equal = firstSeen(ctx, caller, findEqual(row as Fingerprint), keys, meter);
    const twin = made.get(known);
    if (equal) {
      read.set(equal.logged.id, equal.logged);
      records.push({ ...equal.record, _extras: { deduplicated: true } });
    } else if (twin) records.push({ ...twin, _extras: { deduplicated: true } });
    else {
      fresh.push(row);
      made.set(known, created);
      records.push({ ...created, _extras: { deduplicated: false } });
    }
  }
  const logs = tokenLogRows(ctx, caller, 'read', [...read.values()]);
  noteCreated(caller, fresh);
  return { records, chosen: { rows: fresh, created: createdBy(caller), logs } };
};

/** The rows of the log that are written with the tokens, for an answer that is given again. */
const noteCreated = ({ record, origin }: Caller, rows: readonly NewToken[]): void => {
  for (const [entity_type, of] of Map.groupBy(rows, ({ type }) => type)) {
    const entity_ids = of.map(({ id }) => id);
    const row = { entity_type, entity_ids, message: TOKEN_CREATED, disclosure: 'none' } as const;
    record?.logged({ operation: 'create', ...row, reactor_id: origin?.reactor_id, proxy_id: origin?.proxy_id });
  }
};

const tooLarge = () => payloadTooLarge('The tokens that deduplication finds are too large for one answer.');

type SeenToken = { record: TokenRecord; logged: LoggedToken };

const firstSeen = (
  ctx: Context,
  caller: Caller,
  equal: StoredToken[],
  keys: TenantKeys,
  meter: Meter,
): SeenToken | undefined => {
  for (const row of equal) {
    const seen = recordOfEqual(ctx, caller, row, keys, meter);
    if (seen) return seen;
  }
  return undefined;
};

/**
 * A token with an equal value, masked at most. Undefined for a caller who sees less than the mask: to such a caller the token
 * is not there, or it could find out whether a value that it guesses is stored.
 */
const recordOfEqual = (
  ctx: Context,
  caller: Caller,
  row: StoredToken,
  keys: TenantKeys,
  meter: Meter,
): SeenToken | undefined => {
  const transform = wouldDecide(caller, 'token:read', row);
  if (transform === undefined || transform === 'redact') return undefined;
  if (row.sealed === null) throw tooLarge();
  const kept = openToken(ctx, caller.tenant_id, row, keys);
  if (visibilityOfToken(transform, row, kept) === 'nothing') return undefined;
  noteDecision(caller, 'token:read', row, 'masked', kept);
  try {
    const record = recordOfRow(ctx, caller.tenant_id, row, kept, 'mask', { meter });
    const disclosure = disclosureOf(visibilityOfToken('mask', row, kept));
    // The caller has sent the value: it knows what its fingerprint stands for.
    const fingerprint = row.fingerprint ?? undefined;
    return { record: { ...record, fingerprint }, logged: { id: row.id, type: row.type, disclosure } };
  } catch (error) {
    if (error instanceof ExpressionError) throw tooLarge();
    throw error;
  }
};

/** Makes a token; with a parent, as its child. @throws as createTokens; invalidInput naming every bad place; notFound for the parent. */
export const createToken = async (
  ctx: Context,
  caller: Caller,
  input: { request: unknown; parent_id?: string },
): Promise<TokenRecord> => {
  const { request, parent_id } = input;
  if (typeof request !== 'object' || request === null || Array.isArray(request))
    throw invalidField('', 'the body must be an object with `data`');
  const parent = parent_id === undefined ? undefined : await getTokenRow(ctx, caller, parent_id);
  if (parent) getTransform(caller, 'token:read', parent);
  const problems = createProblems();
  const draft = parseTokenRequest(request as Record<string, Json>, [], problems, draftTools(ctx));
  if (!draft) throw invalidInput(problems.errors);
  return createTokens(ctx, caller, [draft], { parent, answer: ([record]) => record as TokenRecord });
};
