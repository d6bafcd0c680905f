// Reads one token, lists tokens and searches them, under the caller's access rules.
// Log rows of values are committed before the response exists.
import { metadataDigest, searchDigest, shownDigest } from '../../platform/crypto/digest.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import type { TokenCondition } from '../access/token-condition.ts';
import { parseSearchQuery, type SearchNode, SearchQueryError } from './search-query.ts';
import type { FoundCvc, StoredToken } from './rows/token-row.ts';
import type { Work } from '../access/work.ts';
import { noteDecision } from '../access/decisions.ts';
import {
  accessOf,
  decide,
  disclosureOf,
  getTransform,
  maskShownWhere,
  transformUnder,
  valueShownWhere,
} from '../access/rules.ts';
import type { StoredBound } from '../access/bounds.ts';
import type { Caller } from '../access/caller.ts';
import { countTokens } from '../access/daily-counts.ts';
import { limitOfReveal } from '../access/limits.ts';
import type { Permission } from '../access/permissions.ts';
import {
  countShown,
  type LoggedToken,
  type LogRow,
  revealedAmong,
  tokenListLogRow,
  tokenLogRows,
  valueSearchLogRow,
} from '../../platform/db/audit-record.ts';
import type { TokensContext } from './context.ts';
import type { TenantQuery } from '../../platform/db/database.ts';
import { findTokenPage, listTokenRows } from './rows/token-list.ts';
import { findUses, type ShownUses, usesUnder } from './rows/token-uses.ts';
import { invalidField, notFound, payloadTooLarge } from '../../platform/base/errors.ts';
import { type Page, type PageRequest, readPage } from '../../platform/base/pagination.ts';
import { ExpressionError } from './expressions/expression-error.ts';
import { mapInSlices } from '../../platform/json/slices.ts';
import { isStorableText } from '../../platform/json/json.ts';
import { createMeter } from './expressions/meter.ts';
import { openCvcs, openToken, recordOfRow, type TokenRecord, visibilityOfToken } from './tokens.ts';

// Compiles a parsed search query into a database condition, with keyed digests in place of values.
// No statement holds a searched value.

/** Whether a term asks for a value of a token: its answer tells whether a guess is right. */
const isAboutValue = (node: SearchNode): boolean =>
  node.kind === 'data' || (node.kind === 'term' && node.field === 'fingerprint');

/** How many values a query asks for, wherever they stand in it. */
const countValues = (node: SearchNode): number => {
  switch (node.kind) {
    case 'and':
    case 'or':
      return node.nodes.reduce((sum, child) => sum + countValues(child), 0);
    case 'not':
      return countValues(node.node);
    default:
      return isAboutValue(node) ? 1 : 0;
  }
};

/** The tokens about which a caller may ask more than about others. */
type Seen = {
  /** Those whose value the caller may see. */
  value: TokenCondition | 'everything';
  /** Those whose mask the caller may see, or more. */
  mask: TokenCondition | 'everything';
};

/**
 * @param seen terms about values, and about what masks show, match only these: otherwise a caller could find out a hidden value by
 * searching for one guess after another.
 */
const conditionOf = (node: SearchNode, keys: Pick<TenantKeys, 'digest'>, seen: Seen): TokenCondition => {
  switch (node.kind) {
    case 'and':
    case 'or':
      return { kind: node.kind, nodes: node.nodes.map((child) => conditionOf(child, keys, seen)) };
    case 'not':
      return { kind: 'not', node: conditionOf(node.node, keys, seen) };
    default: {
      const match = matchOf(node, keys);
      const where = isAboutValue(node) ? seen.value : node.kind === 'shown' ? seen.mask : 'everything';
      return where === 'everything' ? match : { kind: 'and', nodes: [match, where] };
    }
  }
};

type SearchTerm = Exclude<SearchNode, { kind: 'and' | 'or' | 'not' }>;

const matchOf = (node: SearchTerm, keys: Pick<TenantKeys, 'digest'>): TokenCondition => {
  switch (node.kind) {
    case 'term':
      return { kind: 'in', column: node.field, values: [node.value] };
    case 'data':
      return { kind: 'digest', digest: searchDigest(keys.digest, node.value) };
    case 'shown':
      return { kind: 'digest', digest: shownDigest(keys.digest, node.part, node.value) };
    case 'metadata':
      return { kind: 'digest', digest: metadataDigest(keys.digest, node.key, node.value) };
    case 'container':
      return node.below
        ? { kind: 'starts_with', column: 'container', prefix: node.path }
        : { kind: 'in', column: 'container', values: [node.path] };
    case 'range':
      return { kind: 'range', column: node.field, from: node.from, to: node.to };
  }
};

/** The row of a token. @throws notFound, the same for an unknown, an expired and another tenant's id. */
export const getTokenRow = async (
  ctx: Pick<TokensContext, 'tokenRows' | 'now'>,
  work: Work,
  id: string,
): Promise<StoredToken> => {
  const row = isStorableText(id) ? await ctx.tokenRows.findToken(work, id, ctx.now()) : undefined;
  if (!row) throw notFound('token');
  return row;
};

/** Whether tokens are logged with the others of a page. They are counted here. */
const gathers = (work: Work, tokens: readonly LoggedToken[]): boolean => {
  work.gather?.(tokens);
  if (work.gather) for (const { id, disclosure } of tokens) countShown(work, disclosure, [id]);
  return work.gather !== undefined;
};

type Bindable = { id: string; bound_to: StoredBound | null | undefined };

/** Looks up the counted uses of tokens whose bound counts them; of others there is none to look up. */
export const usesOf = async (
  { db }: { readonly db: TenantQuery },
  rows: readonly Bindable[],
): Promise<(row: Bindable) => ShownUses> => {
  const isCounted = ({ bound_to }: Bindable): boolean =>
    bound_to?.max_uses !== undefined || bound_to?.allowance?.max_total !== undefined;
  const found = await findUses(
    db,
    rows.filter(isCounted).map(({ id }) => id),
  );
  return (row) => usesUnder(row.bound_to, found.get(row.id));
};

/** Whether an access rule may reveal values to the caller. Only then are security codes of cards read. */
const mayReveal = ({ rules }: Caller): boolean =>
  rules.some(({ transform, permissions }) => transform === 'reveal' && permissions.includes('token:read'));

/**
 * Reads one token. Its log row is committed before the function returns, or the token is with those of its page.
 * @throws notFound; forbidden; too_many_requests over a daily limit; unavailable when the log cannot be written.
 */
export const getToken = async (ctx: TokensContext, work: Work, id: string): Promise<TokenRecord> => {
  const now = ctx.now();
  let row: (StoredToken & Partial<FoundCvc>) | undefined;
  if (isStorableText(id))
    row = await (mayReveal(work.caller)
      ? ctx.tokenRows.findRecord(work, id, now)
      : ctx.tokenRows.findToken(work, id, now));
  if (!row) throw notFound('token');
  const transform = transformUnder(row.bound_to, getTransform(work, 'token:read', row));
  const keys = await ctx.keyring.tenantKeys(work.tenant_id);
  const kept = openToken(ctx, work.tenant_id, row, keys);
  const cvcs = transform === 'reveal' ? await openCvcs(ctx, work, [row]) : undefined;
  const uses = (await usesOf(work, [row]))(row);
  const record = recordOfRow(ctx, work.tenant_id, row, kept, transform, { cvc: cvcs?.get(id), uses });
  const visibility = visibilityOfToken(transform, row, kept);
  noteDecision(work, 'token:read', row, visibility, kept);
  const disclosure = disclosureOf(visibility);
  if (disclosure === 'revealed') await countTokens(ctx, work, limitOfReveal(work), [id]);
  const read = { id, type: row.type, disclosure };
  if (disclosure === 'revealed' || !gathers(work, [read])) await work.log(tokenLogRows(ctx, work, 'read', [read]));
  return record;
};

/** The filters of a list. An undefined or empty filter matches every token. */
export type TokenFilter = {
  id?: string[] | undefined;
  type?: string[] | undefined;
  metadata?: Record<string, string> | undefined;
  container?: string | undefined;
  /** A question about a value. */
  fingerprint?: string | undefined;
};

/**
 * A page of tokens, newest first.
 * @throws forbidden; invalidInput for an invalid cursor; StepUpNeeded or too_many_requests for a fingerprint; unavailable.
 */
export const listTokens = async (
  ctx: TokensContext,
  work: Work,
  input: { filter: TokenFilter; page: PageRequest; parent_id?: string },
): Promise<Page<TokenRecord>> => {
  const keys = await ctx.keyring.tenantKeys(work.tenant_id);
  const { fingerprint } = input.filter;
  if (fingerprint !== undefined) await admitQuestion(ctx, work, 1);
  const wanted = filterCondition(input.filter, keys, valueShownWhere(work.caller, 'token:read'));
  return readTokens(ctx, work, 'token:read', { wanted, keys, page: input.page, parent_id: input.parent_id });
};

const parseQuery = (query: string): SearchNode => {
  try {
    return parseSearchQuery(query);
  } catch (error) {
    if (error instanceof SearchQueryError) throw invalidField('query', error.message, 'bad_query');
    throw error;
  }
};

/**
 * Counts and logs a question about values before it is answered: the answer tells whether a guess is right, also where no token is
 * found or shown. Each value that is asked for counts as a token, also one that was asked for before.
 * @throws StepUpNeeded; too_many_requests over a daily limit; unavailable.
 */
const admitQuestion = async (ctx: TokensContext, work: Work, values: number): Promise<void> => {
  if (values === 0) return;
  work.needFreshFactor();
  const questions = Array.from({ length: values }, () => ctx.newUuid());
  await countTokens(ctx, work, limitOfReveal(work), questions);
  await work.log([valueSearchLogRow(ctx, work)]);
};

/**
 * The tokens that a query selects, without what the caller may reach.
 * @throws invalidInput for an invalid query; StepUpNeeded or too_many_requests for a query about values; unavailable.
 */
export const admitQuery = async (ctx: TokensContext, work: Work, text: string): Promise<TokenCondition> => {
  const query = parseQuery(text);
  await admitQuestion(ctx, work, countValues(query));
  const keys = await ctx.keyring.tenantKeys(work.tenant_id);
  const { caller } = work;
  return conditionOf(query, keys, { value: valueShownWhere(caller, 'token:search'), mask: maskShownWhere(caller) });
};

/** A page of the tokens that a query finds, newest first. @throws as admitQuery; forbidden. */
export const searchTokens = async (
  ctx: TokensContext,
  work: Work,
  { query, page }: { query: string | undefined; page: PageRequest },
): Promise<Page<TokenRecord>> => {
  const wanted = query === undefined ? undefined : await admitQuery(ctx, work, query);
  const keys = await ctx.keyring.tenantKeys(work.tenant_id);
  return readTokens(ctx, work, 'token:search', { wanted, keys, page, parent_id: undefined });
};

/** @param shown the tokens whose value the caller may see. */
const filterCondition = (
  { id, type, metadata, container, fingerprint }: TokenFilter,
  keys: TenantKeys,
  shown: TokenCondition | 'everything',
): TokenCondition | undefined => {
  const nodes: TokenCondition[] = [];
  if (id && id.length > 0) nodes.push({ kind: 'in', column: 'id', values: id });
  if (type && type.length > 0) nodes.push({ kind: 'in', column: 'type', values: type });
  for (const [name, value] of Object.entries(metadata ?? {}))
    nodes.push({ kind: 'digest', digest: metadataDigest(keys.digest, name, value) });
  const terms: SearchNode[] = [
    ...(container === undefined ? [] : [{ kind: 'container', path: container, below: false } as const]),
    ...(fingerprint === undefined ? [] : [{ kind: 'term', field: 'fingerprint', value: fingerprint } as const]),
  ];
  nodes.push(...terms.map((term) => conditionOf(term, keys, { value: shown, mask: { kind: 'nothing' } })));
  return all(nodes);
};

const all = (nodes: TokenCondition[]): TokenCondition | undefined =>
  nodes.length > 1 ? { kind: 'and', nodes } : nodes[0];

const tooLarge = () =>
  payloadTooLarge('The tokens of this page are too large for one answer. Ask for fewer by `size`.');

/** One row for all tokens of a page that shows no value. A shown value is an entry a token, but for members, who see masks. */
const listRows = (ctx: TokensContext, work: Work, read: readonly LoggedToken[]): LogRow[] => {
  const isShown = ({ disclosure }: LoggedToken): boolean => disclosure === 'revealed' && work.actor_type !== 'user';
  const others = read.filter((token) => !isShown(token));
  const rows = tokenLogRows(ctx, work, 'read', read.filter(isShown));
  return others.length > 0 ? [tokenListLogRow(ctx, work, others), ...rows] : rows;
};

const readTokens = async (
  ctx: TokensContext,
  work: Work,
  permission: Permission,
  list: { wanted: TokenCondition | undefined; keys: TenantKeys; page: PageRequest; parent_id: string | undefined },
): Promise<Page<TokenRecord>> => {
  const { wanted, keys, page, parent_id } = list;
  const now = ctx.now();
  // Tokens that the caller may not see are neither returned nor counted.
  const access = accessOf(work.caller, permission);
  const condition = all([wanted, access === 'everything' ? undefined : access].filter((node) => node !== undefined));
  const { pagination, rows } = await readPage(page, {
    page: (offset, limit) => findTokenPage(work.db, { condition, parent_id, now, start: { offset }, limit }),
    cursor: {
      of: cursorOf,
      parse: parseCursor,
      list: (after, limit) => listTokenRows(work.db, { condition, parent_id, now, start: { after }, limit }),
    },
  });
  if (rows.some(({ sealed }) => sealed === null)) throw tooLarge();
  const meter = createMeter();
  const uses = await usesOf(work, rows);
  const read: LoggedToken[] = [];
  const recordOf = (row: StoredToken): TokenRecord => {
    const transform = decide(work, permission, row) ?? 'redact';
    const kept = openToken(ctx, work.tenant_id, row, keys);
    const visibility = visibilityOfToken(transform, row, kept);
    noteDecision(work, permission, row, visibility, kept);
    read.push({ id: row.id, type: row.type, disclosure: disclosureOf(visibility) });
    try {
      return recordOfRow(ctx, work.tenant_id, row, kept, transform, { meter, uses: uses(row) });
    } catch (error) {
      if (error instanceof ExpressionError) throw tooLarge();
      throw error;
    }
  };
  const data = await ctx.accounts.runInTurns(work.tenant_id, mapInSlices(rows, recordOf));
  if (rows.length > 0) {
    await countTokens(ctx, work, limitOfReveal(work), revealedAmong(read));
    if (revealedAmong(read).length > 0 || !gathers(work, read)) await work.log(listRows(ctx, work, read));
  }
  return { pagination, data };
};

const cursorOf = (row: StoredToken): string[] => [String(row.created_at.getTime()), row.id];

const parseCursor = ([time, id]: string[]): { created_at: Date; id: string } | undefined => {
  if (time === undefined || id === undefined || !/^\d{1,15}$/.test(time) || !isStorableText(id)) return undefined;
  return { created_at: new Date(Number(time)), id };
};
