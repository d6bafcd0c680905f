// Creates tokens from rows of another system under the ids of that system. A row that is stored already is not written again.
import { AppError, FieldErrorCollector, type FieldErrors } from '../../platform/base/errors.ts';
import { operator } from '../../platform/db/audit-record.ts';
import { fingerprint, sha256Hex } from '../../platform/crypto/digest.ts';
import type { Json } from '../../platform/json/json.ts';
import type { Work } from '../access/work.ts';
import { pinBounds } from '../access/bound-targets.ts';
import type { TokensContext } from './context.ts';
import { findContainerWarning } from './container-warnings.ts';
import { createTokens } from './create-tokens.ts';
import { chosenTokenId, type Draft, parseTokenRequest } from './token-request.ts';
import { findTokenType, passesLuhn } from './token-types.ts';
import { draftTools } from './tokens.ts';
import { findVerified } from './verified-rows.ts';

/** A token request without its id, which the row of the source gives. */
export type ImportRow = { id: string; request: Record<string, Json> };

/** What came of a row. A reason names places, never values. */
export type ImportOutcome = { kind: 'created' | 'existing'; token_id: string } | { kind: 'fault'; reason: string };

type Parsed = { token_id: string; draft: Draft };

const TAKEN = 'its id belongs to another token';

/** Faults that end the whole import: the database or the server is at fault, not the row. */
const isOfRow = (error: unknown): error is AppError =>
  error instanceof AppError && ['conflict', 'payload_too_large', 'invalid_input'].includes(error.code);

const LOOKS_LIKE_UUID = /^(.{8})(.{4})(.{3})(.{3})(.{12}).*$/;

/**
 * The id of the token for an id of the source: the same, or, where a token cannot have it, a UUID of version 8 (RFC 9562)
 * that is computed from it. So each run finds what an earlier one wrote.
 */
export const tokenIdOf = (id: string): string =>
  chosenTokenId.safeParse(id).success ? id : sha256Hex(`import ${id}`).replace(LOOKS_LIKE_UUID, '$1-$2-8$3-a$4-$5');

/** An id is no secret: it is stored and logged in plain text. */
const looksLikeCard = (id: string): boolean => {
  const digits = id.replaceAll(/[ -]/g, '');
  return /^[0-9]{12,19}$/.test(digits) && passesLuhn(digits);
};

const reasonOf = (errors: FieldErrors): string =>
  Array.from(
    Map.groupBy(errors, ({ path }) => path),
    ([path, found]) => `${path}: ${found.map(({ sentence }) => sentence).join(', ')}`,
  ).join('; ');

/** A mask that is the default of its type stays the default. */
const withoutDefaultMask = (request: Record<string, Json>): Record<string, Json> => {
  const { type, mask, ...rest } = request;
  const isDefault =
    typeof type === 'string' && JSON.stringify(findTokenType(type)?.mask ?? null) === JSON.stringify(mask ?? null);
  return isDefault ? { ...(type !== undefined && { type }), ...rest } : request;
};

const parseRow = async (ctx: TokensContext, work: Work, row: ImportRow): Promise<Parsed | { reason: string }> => {
  if (looksLikeCard(row.id)) return { reason: 'its id has the form of a card number' };
  const token_id = tokenIdOf(row.id);
  const problems = new FieldErrorCollector();
  const request = { ...withoutDefaultMask(row.request), id: token_id, deduplicate_token: false };
  try {
    const parsing = parseTokenRequest(request, [], problems, draftTools(ctx, work));
    const draft = await ctx.accounts.runInTurns(work.tenant_id, parsing);
    if (!draft || problems.count > 0) return { reason: reasonOf(problems.errors) };
    // In this tenant there may be no such proxies and reactors: a row does not lose its bound.
    await pinBounds(ctx, work.tenant_id, [draft.bound_to]);
    return { token_id, draft };
  } catch (error) {
    if (!isOfRow(error)) throw error;
    return { reason: error.fieldErrors ? reasonOf(error.fieldErrors) : error.message };
  }
};

/** Whether two values of a type are equal: what a fingerprint compares. */
type Print = { type: string; fingerprint: string | null; fingerprint_expression: string | null };

const isEqual = (one: Print, other: Print): boolean =>
  one.type === other.type &&
  one.fingerprint === other.fingerprint &&
  one.fingerprint_expression === other.fingerprint_expression;

/** An import that creates tokens warns as they are created. */
const warnOfContainers = async (ctx: TokensContext, work: Work, fresh: readonly Parsed[]): Promise<void> => {
  const containers = fresh.map(({ draft }) => draft.container);
  const warning = await findContainerWarning(ctx, work, containers);
  if (warning !== undefined) work.warn(warning);
};

/**
 * Creates a token for each row that has none yet, in one statement. Each row is validated as `POST /tokens` does.
 * @param isDryRun when true, writes nothing and says what would be written.
 * @returns one outcome for each row, in order.
 * @throws unavailable, and other errors that no row caused. Rows may have been written then; the same call continues.
 */
export const importTokens = async (
  ctx: TokensContext,
  work: Work,
  rows: readonly ImportRow[],
  isDryRun: boolean,
): Promise<ImportOutcome[]> => {
  const keys = await ctx.keyring.tenantKeys(work.tenant_id);
  const printOf = ({ type, fingerprint_expression, fingerprintValue }: Draft): Print => ({
    type: type.name,
    fingerprint: fingerprint(keys.digest, type.name, fingerprintValue),
    fingerprint_expression,
  });
  const parsed: (Parsed | { reason: string })[] = [];
  for (const row of rows) parsed.push(await parseRow(ctx, work, row));
  const ids = [...new Set(parsed.flatMap((each) => ('draft' in each ? [each.token_id] : [])))];
  const known = new Map<string, Print>();
  const note = async (wanted: string[]): Promise<void> => {
    if (wanted.length > 0)
      for (const row of await findVerified(ctx, work.tenant_id, wanted, keys)) known.set(row.id, row);
  };
  await note(ids);
  const againstKnown = ({ token_id, draft }: Parsed): ImportOutcome | undefined => {
    const stored = known.get(token_id);
    if (!stored) return undefined;
    return isEqual(stored, printOf(draft)) ? { kind: 'existing', token_id } : { kind: 'fault', reason: TAKEN };
  };

  const fresh: Parsed[] = [];
  const outcomes = parsed.map((each): ImportOutcome => {
    if (!('draft' in each)) return { kind: 'fault', reason: each.reason };
    const found = againstKnown(each);
    if (found) return found;
    known.set(each.token_id, printOf(each.draft));
    fresh.push(each);
    return { kind: 'created', token_id: each.token_id };
  });
  if (isDryRun) await warnOfContainers(ctx, work, fresh);
  if (isDryRun || fresh.length === 0) return outcomes;

  const create = (drafts: Draft[]) => createTokens(ctx, work, drafts, { answer: () => undefined, by: operator });
  try {
    await create(fresh.map(({ draft }) => draft));
    return outcomes;
  } catch (error) {
    if (!isOfRow(error)) throw error;
  }
  // Another process wrote one of the ids in the meantime, or an expired token has it: each row by itself.
  const changed = new Map<string, ImportOutcome>();
  for (const each of fresh) {
    try {
      await create([each.draft]);
    } catch (error) {
      if (!isOfRow(error)) throw error;
      known.delete(each.token_id);
      await note([each.token_id]);
      changed.set(each.token_id, againstKnown(each) ?? { kind: 'fault', reason: TAKEN });
    }
  }
  return outcomes.map((outcome) => ('token_id' in outcome && changed.get(outcome.token_id)) || outcome);
};
