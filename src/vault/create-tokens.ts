// Drafts become tokens: sealed, written with their log rows, all of them or none. Deduplication, links to a parent and the
// answer of an idempotent request are written in the same transaction.
import type { Caller } from '../access/caller.ts';
import { decide, getTransform, type Transform } from '../access/rules.ts';
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
import { AppError, conflict, forbidden, invalidField, invalidInput, payloadTooLarge } from '../errors.ts';
import { ExpressionError } from './expression-error.ts';
import type { Json } from './json.ts';
import { createMeter, type Meter } from './meter.ts';
import { getTokenRow } from './read-tokens.ts';
import { createProblems, type Draft, parseTokenRequest } from './token-request.ts';
import {
  draftTools,
  openToken,
  recordOfDraft,
  recordOfRow,
  sealCvc,
  sealDraft,
  searchDigestsOf,
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
    getTransform(caller, 'token:create', draft.id === undefined ? draft : { id: draft.id, container: draft.container }),
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
      return await insert(ctx, caller, { drafts, rows, transforms, keys }, options);
    } catch (error) {
      const taken = error instanceof AppError && error.code === 'conflict';
      if (!taken || !hasAliases || draw === ALIAS_DRAWS_MAX) throw error;
    }
  }
};

const idOf = (ctx: Context, draft: Draft, draw: number): string =>
  draft.id ?? (draw === ALIAS_DRAWS_MAX ? undefined : draft.drawId?.()) ?? ctx.newUuid();

type Sealed = { drafts: Draft[]; rows: NewToken[]; transforms: Transform[]; keys: TenantKeys };

const insert = async <T>(ctx: Context, caller: Caller, sealed: Sealed, options: CreateOptions<T>): Promise<T> => {
  const db = ctx.db.for(caller);
  const { drafts, rows, transforms } = sealed;
  const wanted = new Map<string, Fingerprint>();
  for (const [index, draft] of drafts.entries())
    if (deduplicates(caller, draft)) {
      const print = rows[index] as Fingerprint;
      wanted.set(nameOf(print), print);
    }

  if (wanted.size === 0 && options.parent === undefined && caller.keep === undefined) {
    await db.insertTokens(rows, createdBy(caller));
    return options.answer(
      rows.map((row, index) =>
        recordOfDraft(caller.tenant_id, drafts[index] as Draft, transforms[index] as Transform, row, madeOf(row)),
      ),
    );
  }

  let answer: { of: T } | undefined;
  await db.insertTokensTogether([...wanted.values()], ctx.now(), (findExisting) => {
    const { records, chosen } = choose(ctx, caller, sealed, findExisting, options.parent !== undefined);
    const of = options.answer(records);
    answer = { of };
    const linked = options.parent === undefined ? chosen : withLinks(ctx, caller, options.parent, records, chosen);
    return { ...linked, answer: caller.keep?.(of) };
  });
  return (answer as { of: T } | undefined as { of: T }).of;
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
  { drafts, rows, transforms, keys }: Sealed,
  findExisting: (of: Fingerprint) => StoredToken | undefined,
  isLinked: boolean,
): { records: TokenRecord[]; chosen: ChosenTokens } => {
  const records: TokenRecord[] = [];
  const fresh: NewToken[] = [];
  const read = new Map<string, LoggedToken>();
  const made = new Map<string, TokenRecord>();
  const meter = createMeter();
  for (const [index, draft] of drafts.entries()) {
    const row = rows[index] as NewToken;
    const created = recordOfDraft(caller.tenant_id, draft, transforms[index] as Transform, row, madeOf(row));
    if (!deduplicates(caller, draft)) {
      fresh.push(row);
      records.push(created);
      continue;
    }
    const known = nameOf(row as Fingerprint);
    const before = findExisting(row as Fingerprint);
    const twin = made.get(known);
    if (before) {
      const { record, logged } = recordOfExisting(ctx, caller, before, keys, meter);
      // To link two tokens takes a right to read both.
      if (isLinked && !logged) throw forbidden('token:read');
      if (logged) read.set(logged.id, logged);
      records.push({ ...record, _extras: { deduplicated: true } });
    } else if (twin) records.push({ ...twin, _extras: { deduplicated: true } });
    else {
      fresh.push(row);
      made.set(known, created);
      records.push({ ...created, _extras: { deduplicated: false } });
    }
  }
  const logs = tokenLogRows(ctx, caller, 'read', [...read.values()]);
  return { records, chosen: { rows: fresh, created: createdBy(caller), logs } };
};

const madeOf = ({ id, created_by, created_at }: NewToken) => ({ id, created_by, created_at });

const tooLarge = () => payloadTooLarge('The tokens that deduplication finds are too large for one answer.');

/** A token that deduplication found, as its finder may see it: whole under token:read, masked at most; else only that it is there. */
const recordOfExisting = (
  ctx: Context,
  caller: Caller,
  row: StoredToken,
  keys: TenantKeys,
  meter: Meter,
): { record: TokenRecord; logged: LoggedToken | undefined } => {
  const transform = decide(caller, 'token:read', row);
  if (transform === undefined) {
    const { id, type, fingerprint: print, container } = row;
    const record = { id, tenant_id: caller.tenant_id, type, fingerprint: print ?? undefined, containers: [container] };
    return { record, logged: undefined };
  }
  if (row.sealed === null) throw tooLarge();
  const kept = openToken(ctx, caller.tenant_id, row, keys);
  const shown = transform === 'redact' ? 'redact' : 'mask';
  try {
    const record = recordOfRow(ctx, caller.tenant_id, row, kept, shown, { meter });
    const disclosure = disclosureOf(visibilityOfToken(shown, row, kept));
    return { record, logged: { id: row.id, type: row.type, disclosure } };
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
