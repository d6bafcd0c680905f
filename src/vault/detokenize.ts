// Expressions in, values out: finds the tokens that a request refers to, decides over each, logs what is about to be shown,
// and only then puts values in. One implementation for detokenizing, reactors and the proxy.
import { noteDecision } from '../access/answer-record.ts';
import type { Caller } from '../access/caller.ts';
import { getTransform, type Transform } from '../access/rules.ts';
import { disclosureOf, type LoggedToken, type LogRow, tokenLogRows } from '../audit/record.ts';
import type { Context } from '../context.ts';
import type { FoundCvc, StoredToken, StoredValue } from '../db/hot.ts';
import { badRequest, type AppError, invalidField, payloadTooLarge } from '../errors.ts';
import {
  collectTokenIds,
  createExpansion,
  createReferences,
  type ExpansionRecord,
  expandJson,
  type References,
} from './expansion.ts';
import { ExpressionError } from './expression-error.ts';
import { formatPath, isStorableText, type Json } from './json.ts';
import { createMeter, type Meter } from './meter.ts';
import { type Kept, openCvcs, openToken, recordOfRow, shownData, visibilityOfToken } from './tokens.ts';

/** Reading shows what a reader may see; using reveals, since whoever uses a value never gets to see it (decisions.md section 3). */
export type Purpose = 'read' | 'use';

const permissionOf = { read: 'token:read', use: 'token:use' } as const;

/** A token that may be shown, and what was made of it: its data, or the whole of it. */
type Opened = {
  row: StoredValue | StoredToken;
  kept: Kept;
  transform: Transform;
  cvc: string | undefined;
  data?: ExpansionRecord;
  whole?: ExpansionRecord;
};

/** What an expression gets of a token by its id; undefined for an id that was not asked for. */
export type TokenValues = (id: string, whole: boolean) => ExpansionRecord | undefined;

/** What is logged of the tokens that are opened, and with them. */
export type LogDetails = {
  /** Rows to be written with those of the tokens. Where there are no tokens, none is. */
  beside?: readonly LogRow[];
  /** Where the values are sent. */
  destination_host?: string | undefined;
};

export type OpenedTokens = { values: TokenValues; logged: readonly LogRow[] };

/**
 * Opens the tokens that expressions refer to. The log rows are committed when this returns.
 * @returns the values and the rows.
 * @throws badRequest naming the ids that are unknown or expired; forbidden; payloadTooLarge; unavailable.
 */
export const openTokens = async (
  ctx: Context,
  caller: Caller,
  { ids, isWhole }: Pick<References, 'ids' | 'isWhole'>,
  purpose: Purpose,
  { beside = [], destination_host }: LogDetails = {},
): Promise<OpenedTokens> => {
  if (ids.size === 0) return { values: () => undefined, logged: [] };
  const db = ctx.db.for(caller);
  const storable = [...ids].filter(isStorableText);
  const rows: (StoredValue & FoundCvc)[] = await (isWhole
    ? db.findRecords(storable, ctx.now())
    : db.findValues(storable, ctx.now()));
  if (rows.length < ids.size) {
    const found = new Set(rows.map(({ id }) => id));
    throw missing([...ids].filter((id) => !found.has(id)));
  }
  const opened = await open(ctx, caller, rows, purpose);
  const shown = [...opened.values()].map(({ row: { id, type }, kept, row, transform }): LoggedToken => {
    const visibility = visibilityOfToken(transform, row, kept);
    noteDecision(caller, permissionOf[purpose], row, visibility, kept);
    const disclosure = purpose === 'use' ? 'used' : disclosureOf(visibility);
    return { id, type, disclosure };
  });
  const logged = [...tokenLogRows(ctx, caller, purpose, shown, { destination_host }), ...beside];
  await db.insertLogs(logged);

  const meter = createMeter();
  const values: TokenValues = (id, whole) => {
    const token = opened.get(id);
    if (!token) return undefined;
    return (token[whole ? 'whole' : 'data'] ??= recordFor(ctx, caller, token, { meter, whole }));
  };
  return { values, logged };
};

const missing = (ids: string[]): AppError => badRequest(`Failed to detokenize some tokens: ${ids.join(', ')}`);

/** Decides over tokens and opens them, by id. @throws forbidden; payloadTooLarge. */
const open = async (
  ctx: Context,
  caller: Caller,
  rows: (StoredValue & FoundCvc)[],
  purpose: Purpose,
): Promise<Map<string, Opened>> => {
  const transforms = rows.map((row) => {
    const transform = getTransform(caller, permissionOf[purpose], row);
    return purpose === 'use' && transform === 'default' ? 'reveal' : transform;
  });
  // Sealed bytes are a little more than the values: what is beyond this cannot be expanded either.
  if (rows.some(({ sealed }) => sealed === null)) throw payloadTooLarge('The values must not expand beyond 10 MB.');
  const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
  const revealed = rows.filter((_, index) => transforms[index] === 'reveal');
  const cvcs = await openCvcs(ctx, caller, revealed);
  const opened = new Map<string, Opened>();
  for (const [index, row] of rows.entries()) {
    const kept = openToken(ctx, caller.tenant_id, row, keys);
    opened.set(row.id, { row, kept, transform: transforms[index] as Transform, cvc: cvcs.get(row.id) });
  }
  return opened;
};

const recordFor = (
  ctx: Context,
  caller: Caller,
  { row, kept, transform, cvc }: Opened,
  { meter, whole }: { meter: Meter; whole: boolean },
): ExpansionRecord => {
  if (!whole) {
    // The mask is worth evaluating only where it is what is shown.
    const data =
      transform === 'reveal' && cvc === undefined
        ? kept.data
        : shownData(ctx, row, kept, transform, { cvc, meter }).data;
    return { data: data ?? null };
  }
  const record = recordOfRow(ctx, caller.tenant_id, row as StoredToken, kept, transform, { cvc, meter });
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined)) as ExpansionRecord;
};

/** An expression's error as the caller's. */
export const expressionFault = (error: ExpressionError, place = ''): AppError =>
  error.code === 'too_large' || error.code === 'too_complex'
    ? payloadTooLarge('The values must not expand beyond 10 MB, nor take more work than a request may.')
    : invalidField(place, error.message);

/**
 * Puts values in the place of expressions in any JSON: the same JSON comes out, as far as the caller may read.
 * @throws badRequest for unknown tokens; forbidden; invalidInput; payloadTooLarge; unavailable.
 */
export const detokenize = async (ctx: Context, caller: Caller, body: Json): Promise<Json> =>
  (await expand(ctx, caller, body, 'read')).value;

/**
 * As `detokenize`, for somebody who uses the values and does not show them: under token:use, and logged so.
 * @returns `isLogged`: whether there were tokens, and so whether anything was written.
 */
export const detokenizeForUse = (ctx: Context, caller: Caller, body: Json, details: LogDetails): Promise<Expanded> =>
  expand(ctx, caller, body, 'use', details);

type Expanded = { value: Json; isLogged: boolean };

const expand = async (
  ctx: Context,
  caller: Caller,
  body: Json,
  purpose: Purpose,
  details?: LogDetails,
): Promise<Expanded> => {
  const references = createReferences();
  atItsPlace(body, (value) => collectTokenIds(value, references));
  if (references.templates.size === 0) return { value: body, isLogged: false };
  const { values } = await openTokens(ctx, caller, references, purpose, details);
  const expansion = createExpansion(values, ctx.expressionEnvironment, references);
  return { value: atItsPlace(body, (value) => expandJson(value, expansion)), isLogged: references.ids.size > 0 };
};

/** Does work on a value; what is wrong with an expression is looked for again, text by text, to name its place. */
const atItsPlace = <T>(body: Json, work: (value: Json) => T): T => {
  try {
    return work(body);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    throw expressionFault(error, findPlace(body, [], error.code, work));
  }
};

const findPlace = (
  value: Json,
  path: (string | number)[],
  code: ExpressionError['code'],
  work: (value: Json) => unknown,
): string | undefined => {
  if (typeof value === 'string') {
    try {
      work(value);
      return undefined;
    } catch (error) {
      return error instanceof ExpressionError && error.code === code ? formatPath(path) : undefined;
    }
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const steps: Iterable<[string | number, Json]> = Array.isArray(value) ? value.entries() : Object.entries(value);
  for (const [step, child] of steps) {
    const place = findPlace(child, [...path, step], code, work);
    if (place !== undefined) return place;
  }
  return undefined;
};
