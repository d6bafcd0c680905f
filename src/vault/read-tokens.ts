// Reading tokens back under the caller's rules: one, a list, or what a search finds. The log rows of what is shown are
// committed before the answer exists.
import { noteDecision } from '../access/answer-record.ts';
import type { Caller } from '../access/caller.ts';
import { accessOf, decide, getTransform, valueShownWhere } from '../access/rules.ts';
import type { Permission } from '../access/permissions.ts';
import { disclosureOf, type LoggedToken, tokenListLogRow, tokenLogRows } from '../audit/record.ts';
import type { Context } from '../context.ts';
import { metadataDigest } from '../crypto/digest.ts';
import type { TenantKeys } from '../crypto/keyring.ts';
import type { FoundCvc, StoredToken } from '../db/hot.ts';
import type { TokenCondition } from '../db/token-list.ts';
import { invalidField, notFound, payloadTooLarge } from '../errors.ts';
import { type Page, type PageRequest, readPage } from '../paging.ts';
import { ExpressionError } from './expression-error.ts';
import { isStorableText } from './json.ts';
import { createMeter } from './meter.ts';
import { conditionOf } from './search.ts';
import { parseSearchQuery, SearchQueryError } from './search-query.ts';
import { openCvcs, openToken, recordOfRow, type TokenRecord, visibilityOfToken } from './tokens.ts';

/** The row of a token. @throws notFound for an unknown, expired or foreign id, all alike. */
export const getTokenRow = async (
  ctx: Pick<Context, 'db' | 'now'>,
  caller: Caller,
  id: string,
): Promise<StoredToken> => {
  const row = isStorableText(id) ? await ctx.db.for(caller).findToken(id, ctx.now()) : undefined;
  if (!row) throw notFound('token');
  return row;
};

/** Whether a rule may show the caller values of tokens: those of cards have security codes. */
const mayReveal = ({ rules }: Caller): boolean =>
  rules.some(({ transform, permissions }) => transform === 'reveal' && permissions.includes('token:read'));

/**
 * Reads one token. Its log row is committed before anything of it is shown.
 * @throws notFound; forbidden; unavailable when the log cannot be written.
 */
export const getToken = async (ctx: Context, caller: Caller, id: string): Promise<TokenRecord> => {
  const db = ctx.db.for(caller);
  const now = ctx.now();
  let row: (StoredToken & Partial<FoundCvc>) | undefined;
  if (isStorableText(id)) row = await (mayReveal(caller) ? db.findRecord(id, now) : db.findToken(id, now));
  if (!row) throw notFound('token');
  const transform = getTransform(caller, 'token:read', row);
  const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
  const kept = openToken(ctx, caller.tenant_id, row, keys);
  const cvcs = transform === 'reveal' ? await openCvcs(ctx, caller, [row]) : undefined;
  const record = recordOfRow(ctx, caller.tenant_id, row, kept, transform, { cvc: cvcs?.get(id) });
  const visibility = visibilityOfToken(transform, row, kept);
  noteDecision(caller, 'token:read', row, visibility, kept);
  const disclosure = disclosureOf(visibility);
  await db.insertLogs(tokenLogRows(ctx, caller, 'read', [{ id, type: row.type, disclosure }]));
  return record;
};

/** What the filters of a list ask for. Undefined or empty: everything. */
export type TokenFilter = {
  id?: string[] | undefined;
  type?: string[] | undefined;
  metadata?: Record<string, string> | undefined;
};

/** A page of tokens, newest first. @throws forbidden; invalidInput for a cursor that is none; unavailable. */
export const listTokens = async (
  ctx: Context,
  caller: Caller,
  input: { filter: TokenFilter; page: PageRequest; parent_id?: string },
): Promise<Page<TokenRecord>> => {
  const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
  const wanted = filterCondition(input.filter, keys);
  return readTokens(ctx, caller, 'token:read', { wanted, keys, page: input.page, parent_id: input.parent_id });
};

/** A page of what a query finds, newest first. @throws invalidInput for a query that cannot be read; forbidden; unavailable. */
export const searchTokens = async (
  ctx: Context,
  caller: Caller,
  input: { query: string | undefined; page: PageRequest },
): Promise<Page<TokenRecord>> => {
  const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
  let wanted: TokenCondition | undefined;
  try {
    if (input.query !== undefined)
      wanted = conditionOf(parseSearchQuery(input.query), keys, valueShownWhere(caller, 'token:search'));
  } catch (error) {
    if (error instanceof SearchQueryError) throw invalidField('query', error.message);
    throw error;
  }
  return readTokens(ctx, caller, 'token:search', { wanted, keys, page: input.page, parent_id: undefined });
};

const filterCondition = ({ id, type, metadata }: TokenFilter, keys: TenantKeys): TokenCondition | undefined => {
  const nodes: TokenCondition[] = [];
  if (id && id.length > 0) nodes.push({ kind: 'in', column: 'id', values: id });
  if (type && type.length > 0) nodes.push({ kind: 'in', column: 'type', values: type });
  for (const [name, value] of Object.entries(metadata ?? {}))
    nodes.push({ kind: 'digest', digest: metadataDigest(keys.digest, name, value) });
  return all(nodes);
};

const all = (nodes: TokenCondition[]): TokenCondition | undefined =>
  nodes.length > 1 ? { kind: 'and', nodes } : nodes[0];

const tooLarge = () =>
  payloadTooLarge('The tokens of this page are too large for one answer. Ask for fewer by `size`.');

const readTokens = async (
  ctx: Context,
  caller: Caller,
  permission: Permission,
  list: { wanted: TokenCondition | undefined; keys: TenantKeys; page: PageRequest; parent_id: string | undefined },
): Promise<Page<TokenRecord>> => {
  const { wanted, keys, page, parent_id } = list;
  const db = ctx.db.for(caller);
  const now = ctx.now();
  // What the caller may not see is not there, and not counted either.
  const access = accessOf(caller, permission);
  const condition = all([wanted, access === 'everything' ? undefined : access].filter((node) => node !== undefined));
  const { pagination, rows } = await readPage(page, {
    page: (offset, limit) => db.findTokenPage({ condition, parent_id, now, start: { offset }, limit }),
    cursor: {
      of: cursorOf,
      parse: parseCursor,
      list: (after, limit) => db.listTokens({ condition, parent_id, now, start: { after }, limit }),
    },
  });
  if (rows.some(({ sealed }) => sealed === null)) throw tooLarge();
  const meter = createMeter();
  const read: LoggedToken[] = [];
  const data = rows.map((row) => {
    const transform = decide(caller, permission, row) ?? 'redact';
    const kept = openToken(ctx, caller.tenant_id, row, keys);
    const visibility = visibilityOfToken(transform, row, kept);
    noteDecision(caller, permission, row, visibility, kept);
    read.push({ id: row.id, type: row.type, disclosure: disclosureOf(visibility) });
    try {
      return recordOfRow(ctx, caller.tenant_id, row, kept, transform, { meter });
    } catch (error) {
      if (error instanceof ExpressionError) throw tooLarge();
      throw error;
    }
  });
  if (rows.length > 0) {
    const isPage = caller.actor_type === 'user';
    await db.insertLogs(isPage ? [tokenListLogRow(ctx, caller, read)] : tokenLogRows(ctx, caller, 'read', read));
  }
  return { pagination, data };
};

const cursorOf = (row: StoredToken): string[] => [String(row.created_at.getTime()), row.id];

const parseCursor = ([time, id]: string[]): { created_at: Date; id: string } | undefined => {
  if (time === undefined || id === undefined || !/^\d{1,15}$/.test(time) || !isStorableText(id)) return undefined;
  return { created_at: new Date(Number(time)), id };
};
