// Seals drafts and writes them as tokens with their log rows, all or nothing.
// Deduplication, links to a parent and the kept response of an idempotent request belong to the same transaction.
import {
  linkLogRow,
  type LoggedToken,
  type LogRow,
  logRow,
  messageOf,
  type operator,
  TOKEN_ASSOCIATED,
  tokenLogRows,
} from '../../platform/db/audit-record.ts';
import type { Transaction } from '../../platform/db/transaction.ts';
import {
  type Fingerprint,
  nameOfFingerprint,
  type NewToken,
  type NewTokenLog,
  type StoredToken,
} from './rows/token-row.ts';
import { createTokenGroups, GROUP_ROWS, groupsOf, type TokenGroups } from './rows/token-groups.ts';
import { addToSession, insertGroups, lockFingerprints, putLinks, removeToken } from './rows/token-transactions.ts';
import { usesUnder } from './rows/token-uses.ts';
import { countCreates } from '../access/failures.ts';
import type { Work } from '../access/work.ts';
import { allOrNothing } from '../access/decisions.ts';
import { type Transform } from '../access/access-rule.ts';
import { containersShown, getTransform, getTransformOfNew } from '../access/rules.ts';
import { pinBounds } from '../access/bound-targets.ts';
import { findContainerWarning } from './container-warnings.ts';
import type { TokensContext } from './context.ts';
import { fingerprint } from '../../platform/crypto/digest.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import { readForGroup } from '../../platform/crypto/random.ts';
import { XAES_NONCE_BYTES } from '../../platform/crypto/xaes.ts';
import {
  AppError,
  conflict,
  FieldErrorCollector,
  invalidField,
  invalidInput,
  notFound,
  unavailable,
} from '../../platform/base/errors.ts';
import type { Json } from '../../platform/json/json.ts';
import { mapInSlices, type Slices } from '../../platform/json/slices.ts';
import { createMeter } from './expressions/meter.ts';
import { firstSeen, recordOfEqual, type SeenToken } from './equal-tokens.ts';
import { publicRecordOf } from './public-drafts.ts';
import { getTokenRow } from './read-tokens.ts';
import { type Draft, parseTokenRequest } from './token-request.ts';
import {
  draftTools,
  isMasked,
  recordOfDraft,
  sealCvc,
  sealDraft,
  searchDigestsOf,
  seesFingerprint,
  type TokenRecord,
} from './tokens.ts';

/** Attempts to find an unused alias. After them the id is a UUID. */
const ALIAS_DRAWS_MAX = 5;

/** The message of the log row, which an auditor can search for. */
const INTENT_USED = 'Token intent used';

const TOKEN_CREATED = messageOf('create', 'token');

export type CreateOptions<T> = {
  /** The tokens become children of this one, including existing tokens that deduplication finds. */
  parent?: { id: string; type: string } | undefined;
  /** A token intent that ends with the creation, so that it is used once. */
  intent?: { id: string; type: string; container: string } | undefined;
  /** Makes the result from the records, in the order of the drafts. An idempotent request keeps the result with the tokens. */
  answer: (records: TokenRecord[]) => T;
  /** Who creates them on record, in place of the caller: for the operator, who has no id. */
  by?: typeof operator;
};

/** Writes tokens like `writeTokens`, with a warning to the client if a container may be a typing error. */
export const createTokens = async <T>(
  ctx: TokensContext,
  work: Work,
  drafts: Draft[],
  options: CreateOptions<T>,
): Promise<T> => {
  const warning = await findContainerWarning(
    ctx,
    work,
    drafts.map(({ container }) => container),
  );
  const result = await writeTokens(ctx, work, drafts, options);
  if (warning !== undefined) work.warn(warning);
  return result;
};

/**
 * Seals drafts and writes them with their log rows: all or nothing.
 * @throws forbidden; conflict for an id in use; notFound for a deleted parent; unavailable.
 */
const writeTokens = async <T>(
  ctx: TokensContext,
  work: Work,
  drafts: Draft[],
  options: CreateOptions<T>,
): Promise<T> => {
  const transformOf = (draft: Draft): Transform =>
    getTransformOfNew(work, 'token:create', {
      ...(draft.id !== undefined && { id: draft.id }),
      container: draft.container,
      hasMask: isMasked(draft),
    });
  const isLarge = drafts.length > GROUP_ROWS;
  const transforms = isLarge
    ? await ctx.accounts.runInTurns(work.tenant_id, mapInSlices(drafts, transformOf))
    : drafts.map(transformOf);
  const bounds = await boundsOf(ctx, work, drafts);
  if (work.caller.publicAccess) await countCreates(ctx, work, drafts.length);
  const keys = await ctx.keyring.tenantKeys(work.tenant_id);
  const cvcKey = drafts.some((draft) => draft.cvc !== undefined) ? await ctx.keyring.ephemeralKey() : undefined;
  const hasAliases = drafts.some((draft) => draft.drawId !== undefined);
  const shown = work.caller.publicAccess ? shownToPublic(drafts, options) : options;

  for (let draw = 0; ; draw += 1) {
    const at = ctx.now();
    const created_at = at.toISOString();
    // One log row for all tokens of a type.
    const logIds = new Map<string, string>();
    let randomBytes = ctx.randomBytes;
    const rowOf = (draft: Draft, index: number): NewToken => {
      if (index % GROUP_ROWS === 0) {
        const group = drafts.slice(index, index + GROUP_ROWS);
        const nonces = group.length + group.filter(({ cvc }) => cvc !== undefined).length;
        randomBytes = readForGroup(nonces * XAES_NONCE_BYTES, ctx.randomBytes);
      }
      const sealing = { environment: ctx.environment, config: ctx.config, randomBytes };
      const id = idOf(ctx, draft, draw);
      const type = draft.type.name;
      let log_id = logIds.get(type);
      if (log_id === undefined) logIds.set(type, (log_id = ctx.newLogId(at)));
      const print = fingerprint(keys.digest, draft.type.name, draft.fingerprintValue);
      const bound_to = bounds[index];
      const row: NewToken = {
        id,
        type,
        sealed: sealDraft(sealing, work.tenant_id, keys.data, draft, { id, fingerprint: print, bound_to }),
        fingerprint: print,
        fingerprint_expression: draft.fingerprint_expression,
        container: draft.container,
        metadata: draft.metadata,
        search_digests: searchDigestsOf(keys, draft),
        expires_at: draft.expires_at?.toISOString(),
        bound_to,
        masked: isMasked(draft),
        created_at,
        created_by: (options.by ?? work).actor_id,
        log_id,
      };
      if (draft.search_indexes.length > 0) row.search_indexes = [...draft.search_indexes];
      if (draft.cvc !== undefined && cvcKey)
        Object.assign(row, sealCvc(sealing, work.tenant_id, cvcKey, { id, cvc: draft.cvc, at }));
      return row;
    };
    try {
      if (isLarge && isPlain(work, options) && !drafts.some((draft) => deduplicates(work, draft)))
        return await allOrNothing(work, (writer) => insertLarge(ctx, writer, { drafts, transforms, rowOf }, shown));
      const rows = await ctx.accounts.runInTurns(work.tenant_id, mapInSlices(drafts, rowOf));
      return await allOrNothing(work, (writer) => insert(ctx, writer, { drafts, rows, transforms, keys }, shown));
    } catch (error) {
      const taken = error instanceof AppError && error.code === 'conflict';
      if (!taken || !hasAliases || draw === ALIAS_DRAWS_MAX) throw error;
    }
  }
};

/** Those of the drafts, or that of the session, which was pinned when the session was made. */
const boundsOf = (ctx: TokensContext, { caller, tenant_id }: Work, drafts: readonly Draft[]) => {
  const ofSession = caller.publicAccess?.bound_to;
  const asked = drafts.map(({ bound_to }) => bound_to);
  return ofSession ? asked.map(() => ofSession) : pinBounds(ctx, tenant_id, asked);
};

/** The answer to a public caller. */
const shownToPublic = <T>(drafts: readonly Draft[], { answer, ...options }: CreateOptions<T>): CreateOptions<T> => ({
  ...options,
  answer: (records) => answer(records.map((record, index) => publicRecordOf(drafts[index] as Draft, record))),
});

const idOf = (ctx: TokensContext, draft: Draft, draw: number): string =>
  draft.id ?? (draw === ALIAS_DRAWS_MAX ? undefined : draft.drawId?.()) ?? ctx.newUuid();

/** Requests with at most this many drafts are batched with others: any number of values of that size can be opened. */
const UNIQUE_TOGETHER_MAX = 10;

type Sealed = { drafts: Draft[]; rows: NewToken[]; transforms: Transform[]; keys: TenantKeys };

/** Whether nothing but the tokens and their log rows is written. */
const isPlain = (work: Work, options: Pick<CreateOptions<unknown>, 'parent' | 'intent'>): boolean =>
  options.parent === undefined &&
  options.intent === undefined &&
  !work.keepsAnswer &&
  !work.caller.publicAccess?.session;

type Unsealed = {
  drafts: Draft[];
  transforms: Transform[];
  rowOf: (draft: Draft, index: number) => NewToken;
};

/** Seals group after group. Of each, only its record and its text are kept. */
function* sealInGroups(
  work: Work,
  { drafts, transforms, rowOf }: Unsealed,
  created: NewTokenLog,
): Slices<{ records: TokenRecord[]; groups: TokenGroups }> {
  const groups = createTokenGroups(created);
  const records: TokenRecord[] = [];
  for (let from = 0; from < drafts.length; from += GROUP_ROWS) {
    const group = drafts.slice(from, from + GROUP_ROWS);
    const rows = yield* mapInSlices(group, (draft, index) => rowOf(draft, from + index));
    for (const [index, row] of rows.entries()) {
      records.push(recordOfNew(work, group[index] as Draft, row, transforms[from + index] as Transform));
      yield;
    }
    yield* groups.add(rows);
  }
  return { records, groups: groups.end() };
}

const insertLarge = async <T>(
  ctx: TokensContext,
  work: Work,
  unsealed: Unsealed,
  options: CreateOptions<T>,
): Promise<T> => {
  const sealing = sealInGroups(work, unsealed, createdBy(work, options));
  const { records, groups } = await ctx.accounts.runInTurns(work.tenant_id, sealing);
  await ctx.tokenRows.insertTokenGroups(work, groups);
  noteCreated(
    work,
    groups.logs.map(({ entity_type, entity_ids }) => [entity_type, entity_ids]),
  );
  for (const { entity_ids } of groups.logs) work.usage?.count('stored', entity_ids);
  return options.answer(records);
};

const insert = async <T>(ctx: TokensContext, work: Work, sealed: Sealed, options: CreateOptions<T>): Promise<T> => {
  const { drafts, rows } = sealed;
  const wanted = new Map<string, Fingerprint>();
  for (const [index, draft] of drafts.entries())
    if (deduplicates(work, draft)) {
      const print = rows[index] as Fingerprint;
      wanted.set(nameOfFingerprint(print), print);
    }
  const shown = containersShown(work.caller, 'token:read');

  const session = work.caller.publicAccess?.session;
  // A webhook is told of them in their transaction, which a shared statement has not.
  if (isPlain(work, options) && !ctx.db.events.wants(work.tenant_id, 'token.created')) {
    if (wanted.size === 0) {
      const recordOf = (_: NewToken, index: number): TokenRecord => recordAt(work, sealed, index);
      const records = await ctx.accounts.runInTurns(work.tenant_id, mapInSlices(rows, recordOf));
      await ctx.tokenRows.insertTokens(work, rows, createdBy(work, options));
      noteCreated(work, idsByType(rows));
      countStored(work, rows);
      return options.answer(records);
    }
    // The statement selects containers by pattern only. Rules that need more than that are evaluated by `choose`.
    const isFollowed = shown.isExact && !(shown.hasMaskRule && drafts.some(({ type }) => type.mask === undefined));
    if (isFollowed && drafts.length <= UNIQUE_TOGETHER_MAX)
      return insertUnique(ctx, work, sealed, shown.patterns, options);
  }

  const unique = { fingerprints: [...wanted.values()], containers: shown.patterns };
  let stored: readonly NewToken[] = [];
  const made = await work.transaction(async (tx) => {
    if (session) await countInSession(ctx, tx, session, rows);
    if (options.intent) await endIntent(ctx, work, tx, options.intent);
    const equal = await lockFingerprints(tx, unique, ctx.now());
    const chosen = choose(ctx, work, sealed, (of) => equal.get(nameOfFingerprint(of)) ?? []);
    const { records, fresh, logs } = await ctx.accounts.runInTurns(work.tenant_id, chosen);
    stored = fresh;
    const groups = groupsOf(fresh, createdBy(work, options), tx.macOfLog);
    await insertGroups(tx, await ctx.accounts.runInTurns(work.tenant_id, groups));
    tx.log(...logs);
    if (options.parent !== undefined) await linkTo(ctx, work, tx, options.parent, records);
    return options.answer(records);
  });
  countStored(work, stored);
  return made;
};

/** @throws forbidden for more tokens than the session may create. */
const countInSession = async (
  ctx: TokensContext,
  tx: Transaction,
  session: { id: string; page_digest?: Buffer },
  rows: readonly NewToken[],
): Promise<void> => {
  const ids = rows.map(({ id }) => id);
  if (!(await addToSession(tx, session, ids, ctx.now())))
    throw new AppError('forbidden', 'The session may not create so many tokens more.');
};

/** The record of a draft that was written as a new token. */
const recordOfNew = (work: Work, draft: Draft, row: NewToken, transform: Transform): TokenRecord => {
  const shown = { transform, isPrintShown: seesFingerprint(work, draft, row.id) };
  const { id, created_by, created_at, bound_to } = row;
  const made = { id, uses: usesUnder(bound_to), created_by: created_by ?? undefined, created_at };
  return recordOfDraft(work.tenant_id, draft, shown, row, made);
};

const recordAt = (work: Work, { drafts, rows, transforms }: Sealed, index: number): TokenRecord =>
  recordOfNew(work, drafts[index] as Draft, rows[index] as NewToken, transforms[index] as Transform);

/** Attempts to find equal tokens or to write, while others delete or move the equal ones. */
const UNIQUE_TRIES_MAX = 3;

/** Looks for equal tokens and writes the others, in one statement that requests share. @throws unavailable. */
const insertUnique = async <T>(
  ctx: TokensContext,
  work: Work,
  sealed: Sealed,
  seen: string[],
  options: CreateOptions<T>,
  triesLeft = UNIQUE_TRIES_MAX,
): Promise<T> => {
  const { drafts, rows, keys } = sealed;
  const uniqueRows = rows.map((row, index) => {
    if (!deduplicates(work, drafts[index] as Draft)) return row;
    const log_id = rows.length === 1 ? row.log_id : ctx.newLogId(new Date(row.created_at));
    return { ...row, seen, log_id };
  });
  const existing = await ctx.tokenRows.insertUniqueTokens(work, uniqueRows, createdBy(work, options));
  const fresh = rows.filter((_, index) => existing[index] === undefined);
  noteCreated(work, idsByType(fresh));
  countStored(work, fresh);
  const written = new Map(rows.map(({ id }, index) => [id, index]));
  const others = [...new Set(existing.filter((id) => id !== undefined && !written.has(id)))] as string[];
  const found = new Map<string, SeenToken>();
  for (const row of await ctx.tokenRows.findRecords(work, others, ctx.now())) {
    // Each mask has a meter of its own: tokens are written already, so a spent meter must not fail the request.
    const equal = recordOfEqual(ctx, work, row, keys, createMeter());
    if (equal) found.set(row.id, equal);
  }
  if (found.size > 0)
    await work.log(
      tokenLogRows(
        ctx,
        work,
        'read',
        [...found.values()].map(({ logged }) => logged),
      ),
    );
  // Tokens that were deleted or moved since: what they equalled is looked for again, and written otherwise.
  const left = [...rows.keys()].filter((index) => {
    const id = existing[index];
    return id !== undefined && !written.has(id) && !found.has(id);
  });
  const again = left.length === 0 ? [] : await insertLeft(ctx, work, sealed, { left, seen, triesLeft }, options);
  return options.answer(
    rows.map((_, index) => {
      if (left.includes(index)) return again[left.indexOf(index)] as TokenRecord;
      const id = existing[index];
      const isDeduplicating = deduplicates(work, drafts[index] as Draft);
      if (id === undefined)
        return { ...recordAt(work, sealed, index), ...(isDeduplicating && { _extras: { deduplicated: false } }) };
      const twin = written.get(id);
      if (twin !== undefined) return { ...recordAt(work, sealed, twin), _extras: { deduplicated: true } };
      return { ...(found.get(id) as SeenToken).record, _extras: { deduplicated: true } };
    }),
  );
};

/** Tries those drafts again whose equal tokens are gone. */
const insertLeft = async (
  ctx: TokensContext,
  work: Work,
  { drafts, rows, transforms, keys }: Sealed,
  { left, seen, triesLeft }: { left: number[]; seen: string[]; triesLeft: number },
  options: Omit<CreateOptions<unknown>, 'answer'>,
): Promise<TokenRecord[]> => {
  // No conflict: that stands for an alias that is taken, after which all drafts would be written again.
  if (triesLeft === 1) throw unavailable(new Error('tokens with this value are deleted again and again'));
  const of = <Item>(list: Item[]): Item[] => left.map((index) => list[index] as Item);
  // The log row of the first attempt is written where that attempt wrote tokens.
  const log_ids = new Map<string, string>();
  const withOwnLog = (row: NewToken): NewToken => {
    const log_id = log_ids.get(row.log_id) ?? ctx.newLogId(ctx.now());
    log_ids.set(row.log_id, log_id);
    return { ...row, log_id };
  };
  const sealed = { drafts: of(drafts), rows: of(rows).map(withOwnLog), transforms: of(transforms), keys };
  return insertUnique(ctx, work, sealed, seen, { ...options, answer: (records) => records }, triesLeft - 1);
};

/** Ends a token intent. Two creations from it at once: one of them waits for the other, and finds nothing. @throws notFound. */
const endIntent = async (
  ctx: TokensContext,
  work: Work,
  tx: Transaction,
  { id, type, container }: { id: string; type: string; container: string },
): Promise<void> => {
  const log = logRow(ctx, work, { operation: 'delete', entity_type: type, entity_ids: [id], message: INTENT_USED });
  if (!(await removeToken(tx, id, container, log))) throw notFound('token intent');
};

/** Links the tokens to their parent, and logs it as an update of the parent. */
const linkTo = async (
  ctx: TokensContext,
  work: Work,
  tx: Transaction,
  parent: { id: string; type: string },
  records: TokenRecord[],
): Promise<void> => {
  const child_ids = records.map(({ id }) => id);
  if (child_ids.includes(parent.id)) throw conflict('The parent has this value itself, and is not its own child.');
  const log = linkLogRow(ctx, work, parent, TOKEN_ASSOCIATED);
  await putLinks(tx, child_ids, { parent_id: parent.id, created_at: log.created_at, created_by: work.actor_id });
  tx.log(log);
};

/** The log columns of the tokens that a caller creates. */
const createdBy = (work: Work, { by }: Pick<CreateOptions<unknown>, 'by'>): NewTokenLog => ({
  actor_type: (by ?? work).actor_type,
  message: TOKEN_CREATED,
  ...work.origin,
});

/** Whether an equal token may serve in place of a new one. */
export const deduplicates = (work: Work, draft: Draft): boolean => draft.deduplicate ?? work.caller.deduplicate_tokens;

/** Decides for each draft whether an existing token serves, or a new one is written. */
function* choose(
  ctx: TokensContext,
  work: Work,
  sealed: Sealed,
  findEqual: (of: Fingerprint) => StoredToken[],
): Slices<{ records: TokenRecord[]; fresh: NewToken[]; logs: LogRow[] }> {
  const { drafts, rows, keys } = sealed;
  const records: TokenRecord[] = [];
  const fresh: NewToken[] = [];
  const read = new Map<string, LoggedToken>();
  const made = new Map<string, TokenRecord>();
  const meter = createMeter();
  for (const [index, draft] of drafts.entries()) {
    yield;
    const row = rows[index] as NewToken;
    const created = recordAt(work, sealed, index);
    if (!deduplicates(work, draft)) {
      fresh.push(row);
      records.push(created);
      continue;
    }
    const known = nameOfFingerprint(row as Fingerprint);
    const equal = firstSeen(ctx, work, findEqual(row as Fingerprint), keys, meter);
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
  const logs = tokenLogRows(ctx, work, 'read', [...read.values()]);
  noteCreated(work, idsByType(fresh));
  return { records, fresh, logs };
}

const countStored = ({ usage }: Work, rows: readonly NewToken[]): void => {
  if (rows.length > 0)
    usage?.count(
      'stored',
      rows.map(({ id }) => id),
    );
};

const idsByType = (rows: readonly NewToken[]): [type: string, ids: string[]][] =>
  Array.from(
    Map.groupBy(rows, ({ type }) => type),
    ([type, of]) => [type, of.map(({ id }) => id)],
  );

/** Records which log rows were written, for the log of a replayed idempotent response. */
const noteCreated = ({ record, origin }: Work, idsByType: Iterable<[type: string, ids: string[]]>): void => {
  for (const [entity_type, entity_ids] of idsByType) {
    const row = { entity_type, entity_ids, message: TOKEN_CREATED, disclosure: 'none' } as const;
    const { reactor_id, proxy_id, code_application_id } = origin ?? {};
    record?.logged({ operation: 'create', ...row, reactor_id, proxy_id, code_application_id });
  }
};

/** Creates a token, optionally as a child. @throws as createTokens; invalidInput with every invalid field; notFound for the parent. */
export const createToken = async (
  ctx: TokensContext,
  work: Work,
  input: { request: unknown; parent_id?: string },
): Promise<TokenRecord> => {
  const { request, parent_id } = input;
  if (typeof request !== 'object' || request === null || Array.isArray(request))
    throw invalidField('', 'the body must be an object with `data`', 'wrong_type');
  const parent = parent_id === undefined ? undefined : await getTokenRow(ctx, work, parent_id);
  if (parent) getTransform(work, 'token:read', parent);
  const problems = new FieldErrorCollector();
  const slices = parseTokenRequest(request as Record<string, Json>, [], problems, draftTools(ctx, work));
  const draft = await ctx.accounts.runInTurns(work.tenant_id, slices);
  if (!draft) throw invalidInput(problems.errors);
  return createTokens(ctx, work, [draft], { parent, answer: ([record]) => record as TokenRecord });
};
