// Finds the tokens that expressions refer to, checks access, writes log rows, and replaces the expressions by values.
// Detokenizing, reactors and the proxy share it. Log rows are written before any value is returned.
import type { FoundCvc, StoredToken, StoredValue } from './rows/token-row.ts';
import type { Work } from '../access/work.ts';
import { noteDecision } from '../access/decisions.ts';
import { countTokens } from '../access/daily-counts.ts';
import { limitOfReveal } from '../access/limits.ts';
import { disclosureOf, getTransform, transformUnder, visibilityOf } from '../access/rules.ts';
import type { Use } from '../access/bounds.ts';
import { checkBounds, countingOf, type CountUses, type Spending, spendingOf } from './bound-uses.ts';
import type { CodeClaim } from './code-claim.ts';
import { type Transform } from '../access/access-rule.ts';
import { type LoggedToken, type LogRow, revealedAmong, tokenLogRows } from '../../platform/db/audit-record.ts';
import type { TokensContext } from './context.ts';
import { badRequest, type AppError, invalidField, payloadTooLarge } from '../../platform/base/errors.ts';
import type { Known } from './expressions/filter-call.ts';
import {
  type AbsentPaths,
  collectInSlices,
  createExpansion,
  createReferences,
  type ExpansionRecord,
  expandInSlices,
  type References,
} from './expressions/expansion.ts';
import { ExpressionError } from './expressions/expression-error.ts';
import { formatPath, isStorableText, type Json, walkJson } from '../../platform/json/json.ts';
import { mapInSlices, runAtOnce, type Slices } from '../../platform/json/slices.ts';
import { createMeter, type Meter, TOO_LARGE } from './expressions/meter.ts';
import { findTokenType } from './token-types.ts';
import { hasMask, type Kept, openCvcs, openToken, recordOfRow, shownData, type TokenRecord } from './tokens.ts';

/** `read` shows what the caller's rules allow. A use passes the value to code or a destination; the caller does not see it. */
export type Opening = 'read' | Use;

const permissionOf = (opening: Opening) => (opening === 'read' ? 'token:read' : 'token:use');

/** A token after the access check, with the records made of it so far: its data alone, or the whole token. */
export type Opened = {
  row: StoredValue | StoredToken;
  kept: Kept;
  transform: Transform;
  /** Its bounds were asked, and allow what is done with the value. */
  isUse: boolean;
  cvc: string | undefined;
  data?: ExpansionRecord;
  whole?: ExpansionRecord;
};

/** The data, or the whole token, for an expression; undefined for an id that was not opened. */
export type TokenValues = (id: string, whole: boolean) => ExpansionRecord | undefined;

export type LogDetails = {
  /** Further rows, written together with those of the tokens. They are not written if there are no tokens. */
  beside?: readonly LogRow[];
  /** Writes all rows; resolves after commit. Counts uses in the same transaction, where `count` is given. */
  write?: (rows: readonly LogRow[], count?: CountUses) => Promise<void>;
  /** The host that receives the values. */
  destination_host?: string | undefined;
  /** Called with the size of the sealed values before they are opened. What it throws ends the request. */
  beforeOpening?: (bytes: number) => void;
  /** Claims the security codes of cards that are used, in the transaction of the log rows. */
  codes?: CodeClaim | undefined;
  /** The same use as before: bounds do not count it again. */
  isCounted?: boolean | undefined;
};

/** `absent`: how expressions treat paths that the tokens have not. `spending`: where a token has an allowance. */
export type OpenedTokens = { values: TokenValues; absent: AbsentPaths; spending?: Spending | undefined };

/**
 * Opens the tokens that expressions refer to. The log rows are committed when this returns.
 * @throws badRequest with the ids that are unknown or expired; forbidden; payloadTooLarge; too_many_requests over a daily limit;
 * unavailable.
 */
export const openTokens = async (
  ctx: TokensContext,
  work: Work,
  { ids, isWhole }: Pick<References, 'ids' | 'isWhole'>,
  opening: Opening,
  { beside = [], write = (rows) => work.log(rows), destination_host, beforeOpening, codes, isCounted }: LogDetails = {},
): Promise<OpenedTokens> => {
  if (ids.size === 0) return { values: () => undefined, absent: {} };
  const rows = await findRows(ctx, work, { ids, isWhole });
  refuseMissing(ids, rows);
  beforeOpening?.(rows.reduce((sum, { sealed }) => sum + (sealed?.length ?? 0), 0));
  const opened = await openRows(ctx, work, rows, opening);
  const shown = shownOf(work, opened, opening);
  if (opening === 'read') {
    await countTokens(ctx, work, limitOfReveal(work), revealedAmong(shown));
    noteOpened(work, opened);
    await write([...tokenLogRows(ctx, work, 'read', shown), ...beside]);
  } else {
    await countTokens(ctx, work, 'daily_uses', [...ids]);
    noteOpened(work, opened);
    const logged = tokenLogRows(ctx, work, 'use', shown, { destination_host });
    const claim = codes?.claiming(rows, codesAmong(opened));
    await write([...logged, ...beside], bothOf(isCounted ? undefined : countingOf(ctx, work, rows, opening), claim));
  }
  const isUse = opening !== 'read';
  const spending = isUse ? spendingOf(ctx, work, rows, { use: opening, isCounted: isCounted === true }) : undefined;
  return { ...valuesOf(ctx, work, opened), spending };
};

/** The tokens whose security code was opened. */
const codesAmong = (opened: ReadonlyMap<string, Opened>): Set<string> =>
  new Set([...opened].flatMap(([id, { cvc }]) => (cvc === undefined ? [] : [id])));

const bothOf = (first: CountUses | undefined, second: CountUses | undefined): CountUses | undefined => {
  if (!first || !second) return first ?? second;
  return async (query) => {
    await first(query);
    await second(query);
  };
};

/** Tells the echo guard what leaves the vault. A masked value is none. */
const noteOpened = ({ noteOpened: note }: Work, opened: ReadonlyMap<string, Opened>): void => {
  if (!note) return;
  for (const [id, { kept, transform, cvc }] of opened) {
    if (transform !== 'reveal') continue;
    note(id, kept.data);
    if (cvc !== undefined) note(id, { cvc });
  }
};

/** A row that may be opened. */
export type FoundRow = StoredValue & FoundCvc;

/** The rows of tokens of the tenant that have not expired. Unknown ids, and those of other tenants, have none. */
export const findRows = (
  ctx: TokensContext,
  work: Work,
  { ids, isWhole }: Pick<References, 'ids' | 'isWhole'>,
): Promise<FoundRow[]> => {
  const storable = [...ids].filter(isStorableText);
  return isWhole
    ? ctx.tokenRows.findRecords(work, storable, ctx.now())
    : ctx.tokenRows.findValues(work, storable, ctx.now());
};

/** How much of each token is disclosed. */
export const shownOf = (work: Work, opened: ReadonlyMap<string, Opened>, opening: Opening): LoggedToken[] =>
  [...opened.values()].map(({ row: { id, type }, kept, row, transform, isUse }) => {
    const visibility = visibilityOf(transform, hasMask(row, kept));
    noteDecision(work, permissionOf(opening), row, visibility, kept);
    const disclosure = isUse ? 'used' : disclosureOf(visibility);
    return { id, type, disclosure };
  });

/** What expressions read of opened tokens. Call after their log rows are committed. */
export const valuesOf = (
  ctx: TokensContext,
  work: Work,
  opened: ReadonlyMap<string, Opened>,
): Pick<OpenedTokens, 'values' | 'absent'> => {
  const meter = createMeter();
  const values: TokenValues = (id, whole) => {
    const token = opened.get(id);
    if (!token) return undefined;
    return (token[whole ? 'whole' : 'data'] ??= recordFor(ctx, work, token, { meter, whole }));
  };
  const knownOf = (id: string, whole: boolean): Known[] => {
    const token = opened.get(id);
    const record = values(id, whole);
    return token && record ? knownIn(token.row.type, record, whole) : [];
  };
  return { values, absent: { isAbsentNull: work.caller.allows_absent_paths, knownOf } };
};

/** The names of a record that an expression may ask for. Which of them are there depends on the token. */
const recordNames: readonly (keyof TokenRecord)[] = [
  'id',
  'tenant_id',
  'type',
  'data',
  'mask',
  'fingerprint',
  'fingerprint_expression',
  'containers',
  'metadata',
  'search_indexes',
  'expires_at',
  'bound_to',
  'created_by',
  'created_at',
  'modified_by',
  'modified_at',
];

const knownIn = (type: string, record: ExpansionRecord, whole: boolean): Known[] => {
  const { names = [] } = findTokenType(type) ?? {};
  const { data } = record;
  const known: Known[] = names.length === 0 ? [] : [{ node: data, what: `the type ${type}`, names }];
  if (whole)
    known.push({ node: record, what: 'a token', names: recordNames, hidden: data === undefined ? 'data' : undefined });
  return known;
};

/** An id with a path after it, as most templates write a part of a value. */
const idWithPath = /^([^.]+)((?:\.[A-Za-z_]\w*)+)$/;

/** @param of what is wrong with the ids that follow. */
export const missingSentence = (of: string, ids: readonly string[]): string => {
  const [, id, path] = ids.map((each) => idWithPath.exec(each)).find((match) => match !== null) ?? [];
  const advice = id === undefined ? '' : `. For a part of a value use \`{{ ${id} | json: '$${path}' }}\`.`;
  return `${of}: ${ids.join(', ')}${advice}`;
};

const missing = (ids: string[]): AppError => badRequest(missingSentence('Failed to detokenize some tokens', ids));

/** @throws badRequest with the ids that have no row: unknown, expired, or of another tenant. */
export const refuseMissing = (ids: ReadonlySet<string>, rows: readonly { id: string }[]): void => {
  if (rows.length === ids.size) return;
  const found = new Set(rows.map(({ id }) => id));
  throw missing([...ids].filter((id) => !found.has(id)));
};

/**
 * Checks access to tokens and their bounds, and opens them, by id. The only way to a value that is to be used.
 * @throws forbidden; payloadTooLarge.
 */
export const openRows = async (
  ctx: TokensContext,
  work: Work,
  rows: readonly FoundRow[],
  opening: Opening,
): Promise<Map<string, Opened>> => {
  const isUse = opening !== 'read';
  const transforms = rows.map((row) => {
    const transform = getTransform(work, permissionOf(opening), row);
    if (!isUse) return transformUnder(row.bound_to, transform);
    return transform === 'default' ? 'reveal' : transform;
  });
  // Sealed bytes are a little more than the values: what is beyond this cannot be expanded either.
  if (rows.some(({ sealed }) => sealed === null)) throw payloadTooLarge(`The values ${TOO_LARGE}.`);
  const keys = await ctx.keyring.tenantKeys(work.tenant_id);
  const revealed = rows.filter((_, index) => transforms[index] === 'reveal');
  const cvcs = await openCvcs(ctx, work, revealed);
  const openOne = (row: StoredValue, index: number): [string, Opened] => {
    // Opening verifies the bound too.
    const kept = openToken(ctx, work.tenant_id, row, keys);
    if (isUse) checkBounds(ctx, work, row, { use: opening, key: keys.digest });
    return [row.id, { row, kept, transform: transforms[index] as Transform, isUse, cvc: cvcs.get(row.id) }];
  };
  return new Map(await ctx.accounts.runInTurns(work.tenant_id, mapInSlices(rows, openOne)));
};

const recordFor = (
  ctx: TokensContext,
  work: Work,
  { row, kept, transform, isUse, cvc }: Opened,
  { meter, whole }: { meter: Meter; whole: boolean },
): ExpansionRecord => {
  if (!whole) {
    // A revealed value needs no mask, so the mask is not evaluated.
    const data =
      transform === 'reveal' && cvc === undefined
        ? kept.data
        : shownData(ctx, row, kept, transform, { cvc, meter, isUse }).data;
    return data === undefined ? {} : { data };
  }
  const record = recordOfRow(ctx, work.tenant_id, row as StoredToken, kept, transform, { cvc, meter, isUse });
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined)) as ExpansionRecord;
};

/** Converts an expression error to an API error. */
export const expressionFault = (error: ExpressionError, place = ''): AppError =>
  error.code === 'too_large' || error.code === 'too_complex'
    ? payloadTooLarge(`The values ${TOO_LARGE}, and must not take more work than one request may.`)
    : invalidField(place, error.message, 'bad_expression');

/**
 * Replaces expressions in JSON by the values that the caller may read.
 * @throws badRequest for unknown tokens; forbidden; invalidInput; payloadTooLarge; unavailable.
 */
export const detokenize = async (ctx: TokensContext, work: Work, body: Json): Promise<Json> =>
  (await expand(ctx, work, body, 'read')).value;

/**
 * Like `detokenize`, for code and destinations that use the values: needs token:use, and is logged as a use.
 * @returns `isLogged`: whether the body referred to tokens, and so whether log rows were written.
 */
export const detokenizeForUse = (
  ctx: TokensContext,
  work: Work,
  body: Json,
  use: Use,
  details: LogDetails,
): Promise<Expanded> => expand(ctx, work, body, use, details);

type Expanded = { value: Json; isLogged: boolean };

const expand = async (
  ctx: TokensContext,
  work: Work,
  body: Json,
  opening: Opening,
  details?: LogDetails,
): Promise<Expanded> => {
  const references = createReferences();
  await withPlace(ctx, work, body, (value) => collectInSlices(value, references));
  if (references.templates.size === 0) return { value: body, isLogged: false };
  const { values, absent } = await openTokens(ctx, work, references, opening, details);
  const expansion = createExpansion(values, ctx.expressionEnvironment, references, absent);
  const value = await withPlace(ctx, work, body, (part) => expandInSlices(part, expansion));
  return { value, isLogged: references.ids.size > 0 };
};

/** Runs work on a whole value. If an expression fails, runs it again on each text to find the place for the error. */
const withPlace = async <T>(
  { accounts }: TokensContext,
  { tenant_id }: Work,
  body: Json,
  slicesOf: (value: Json) => Slices<T>,
): Promise<T> => {
  try {
    return await accounts.runInTurns(tenant_id, slicesOf(body));
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    throw expressionFault(error, await accounts.runInTurns(tenant_id, findPlace(body, error.code, slicesOf)));
  }
};

function* findPlace(
  body: Json,
  code: ExpressionError['code'],
  slicesOf: (value: Json) => Slices<unknown>,
): Slices<string | undefined> {
  const walk = walkJson(body);
  while (walk.next()) {
    const { value } = walk;
    if (walk.isPauseDue()) yield;
    if (typeof value !== 'string' || !value.includes('{{')) continue;
    try {
      runAtOnce(slicesOf(value));
    } catch (error) {
      if (error instanceof ExpressionError && error.code === code) return formatPath(walk.path());
    }
    yield;
  }
  return undefined;
}
