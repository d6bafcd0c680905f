// Asks the bounds and allowances of a token, and of the access rule that lets a caller use it, about one use; counts uses.
import {
  bindsDestination,
  boundRefusal,
  type Breach,
  findBreach,
  overspent,
  type StoredBound,
  type Use,
  usedUp,
} from '../access/bounds.ts';
import type { Check } from '../access/checks.ts';
import { boundOfUse } from '../access/rules.ts';
import type { Work } from '../access/work.ts';
import type { DigestKey } from '../../platform/crypto/digest.ts';
import type { TenantQuery } from '../../platform/db/database.ts';
import type { Query } from '../../platform/db/statements.ts';
import type { TokensContext } from './context.ts';
import type { StoredValue } from './rows/token-row.ts';
import {
  addTotals,
  type CountedUse,
  countUses,
  findAboveTotal,
  findSpent,
  giveBackUses,
  returnUses,
  type SpentUse,
} from './rows/token-uses.ts';
import { type Allowance, type Charge, findOverspend } from '../access/allowance.ts';

type BoundRow = Pick<StoredValue, 'id' | 'type' | 'container' | 'bound_to'>;

const refuseUse = (ctx: Pick<TokensContext, 'metrics'>, row: BoundRow, use: Use, breach: Breach): never => {
  ctx.metrics.count('strongroom_bound_refusals_total', { bound: breach.bound });
  throw boundRefusal(row, breach, use.kind === 'proxy' ? use.host : undefined);
};

/** Every bound that exists must hold: that of the token, and that of the rule. @throws forbidden naming the attribute that does not. */
export const checkBounds = (
  ctx: Pick<TokensContext, 'metrics' | 'now'>,
  work: Pick<Work, 'caller'>,
  row: BoundRow,
  { use, key }: { use: Use; key: DigestKey },
): void => {
  for (const bound of [row.bound_to, boundOfUse(work.caller, row)]) {
    const breach = bound && findBreach(bound, use, { token_id: row.id, key, now: ctx.now() });
    if (breach) refuseUse(ctx, row, use, breach);
  }
};

/** Counts uses in a transaction. @throws forbidden where one is above its limit. */
export type CountUses = (query: Query) => Promise<void>;

/** What one use of a token is counted for. */
const countedUses = (
  { id: token_id, bound_to }: { id: string; bound_to: StoredBound | null },
  ofRule: StoredBound | undefined,
  application_id: string,
): CountedUse[] => [
  ...(bound_to?.max_uses === undefined ? [] : [{ token_id, application_id: undefined, most: bound_to.max_uses }]),
  ...(ofRule?.max_uses === undefined ? [] : [{ token_id, application_id, most: ofRule.max_uses }]),
];

/** A use that is only asked about. `use` is undefined where no destination is named: then times and counts are asked. */
type AskedUse = { use: Use | undefined; key: DigestKey; application_id: string; now: Date };

/** A token with its own bound, and the one of the rule that lets a caller use it. */
type BoundToken = { id: string; bound_to: StoredBound | null; ofRule: StoredBound | undefined };

const isOver = (bound: StoredBound | null | undefined, now: Date): boolean =>
  bound?.until !== undefined && Date.parse(bound.until) <= now.getTime();

/** The check of each token's bounds, as a use of it would be checked and counted. Counts nothing. */
export const findBoundChecks = async (
  db: TenantQuery,
  tokens: readonly BoundToken[],
  { use, key, application_id, now }: AskedUse,
): Promise<ReadonlyMap<string, Check>> => {
  const spent = await findSpent(
    db,
    tokens.flatMap((token) => countedUses(token, token.ofRule, application_id)),
  );
  const checkOf = ({ id, bound_to, ofRule }: BoundToken): Check => {
    const refused = (detail: string): Check => ({ name: 'bound_to', ok: false, detail });
    for (const bound of [bound_to, ofRule]) {
      const breach = use && findBreach(bound, use, { token_id: id, key, now });
      if (breach) return refused(`bound_to.${breach.bound} ${breach.sentence}.`);
      if (isOver(bound, now)) return refused('bound_to.until is over.');
    }
    if (spent.has(id)) return refused('bound_to.max_uses is used up.');
    const isOpen = use === undefined && (bindsDestination(bound_to) || bindsDestination(ofRule));
    const detail = isOpen
      ? 'A bound names where the value may go: ask about a host or a proxy.'
      : 'No bound refuses it.';
    return { name: 'bound_to', ok: true, detail };
  };
  return new Map(tokens.map((token) => [token.id, checkOf(token)]));
};

/** Undefined where no bound counts uses. */
export const countingOf = (
  ctx: Pick<TokensContext, 'metrics'>,
  work: Pick<Work, 'caller' | 'tenant_id' | 'actor_id'>,
  rows: readonly BoundRow[],
  use: Use,
): CountUses | undefined => {
  const counted = rows.flatMap((row) => countedUses(row, boundOfUse(work.caller, row), work.actor_id));
  if (counted.length === 0) return undefined;
  return async (query) => {
    const above = await countUses(query, work.tenant_id, counted);
    const row = above && rows.find(({ id }) => id === above.token_id);
    if (row) refuseUse(ctx, row, use, usedUp({ max_uses: above.most }, use));
  };
};

// Asks the allowances of tokens, and of the access rules that let a caller use them, about what a request charges.

/** A token that a request may use within an allowance. `application_id`: of the caller whose access rule has it. */
type AllowedToken = {
  row: BoundRow;
  allowance: Allowance;
  /** Whether the bound of the allowance counts uses. */
  isCounted: boolean;
  application_id: string | undefined;
};

type Spender = Pick<Work, 'caller' | 'tenant_id' | 'actor_id' | 'db'>;

/** Most tokens have none. */
const allowancesOf = ({ caller, actor_id }: Spender, rows: readonly BoundRow[]): AllowedToken[] =>
  rows.flatMap((row) =>
    [
      { bound: row.bound_to, application_id: undefined },
      { bound: boundOfUse(caller, row), application_id: actor_id },
    ].flatMap(({ bound, application_id }) =>
      bound?.allowance
        ? [{ row, allowance: bound.allowance, isCounted: bound.max_uses !== undefined, application_id }]
        : [],
    ),
  );

type Refusal = { row: BoundRow; sentence: string };

/** Why a charge is not allowed; undefined where every allowance lets it through. Totals are not asked. */
const findOverspent = (allowed: readonly AllowedToken[], charge: Charge | string): Refusal | undefined => {
  for (const { row, allowance } of allowed) {
    const sentence = typeof charge === 'string' ? charge : findOverspend(allowance, charge);
    if (sentence !== undefined) return { row, sentence };
  }
  return undefined;
};

const sumsOf = (allowed: readonly AllowedToken[]): CountedUse[] =>
  allowed.flatMap(({ row, allowance: { max_total }, application_id }) =>
    max_total === undefined ? [] : [{ token_id: row.id, application_id, most: max_total }],
  );

const totalReached = (allowed: readonly AllowedToken[], above: CountedUse | undefined): Refusal | undefined => {
  const found = allowed.find(
    ({ row, application_id }) => row.id === above?.token_id && application_id === above.application_id,
  );
  if (!found) return undefined;
  const { max_total, currency } = found.allowance;
  return { row: found.row, sentence: `max_total is ${max_total} ${currency}, and less is left than the request has` };
};

/** Ends a transaction. */
class TotalReached extends Error {}

const addToTotals = async (
  { db, tenant_id }: Spender,
  allowed: readonly AllowedToken[],
  { amount }: Charge,
): Promise<Refusal | undefined> => {
  const sums = sumsOf(allowed);
  if (sums.length === 0) return undefined;
  let above: CountedUse | undefined;
  const adding = db.transaction(async (query) => {
    above = await addTotals(query, tenant_id, sums, amount);
    if (above) throw new TotalReached();
  });
  await adding.catch((error: unknown) => {
    if (!(error instanceof TotalReached)) throw error;
  });
  return totalReached(allowed, above);
};

/** What a request with this amount has counted. */
const spentOf = (allowed: readonly AllowedToken[], amount: bigint): SpentUse[] =>
  allowed.flatMap(({ row, allowance: { max_total }, isCounted, application_id }) =>
    isCounted || max_total !== undefined
      ? [{ token_id: row.id, application_id, uses: isCounted ? 1 : 0, amount: max_total === undefined ? 0n : amount }]
      : [],
  );

/** Charges of a request that uses tokens with an allowance. */
export type Spending = {
  /**
   * Asks the allowances about what the request charges, and adds it to their totals, before it is sent.
   * @param charge or the sentence that says why the request has none. @param isUnsent whether nothing can have been sent yet: a
   * refused request is no use then. @param isOfCode whether code made the request: of a process that died while the code ran, nobody
   * knows whether the amount was added, so that a repetition adds it. @throws forbidden; unavailable.
   */
  spend(charge: Charge | string, how: { isUnsent: boolean; isOfCode: boolean }): Promise<void>;
  /** The answer says nothing about the card: the use is given back with its amount, if none was before. Call after `spend`. */
  giveBack(): Promise<void>;
};

/**
 * @param isCounted whether the request is a use that was counted before. @returns undefined where no token has an allowance.
 */
export const spendingOf = (
  ctx: Pick<TokensContext, 'metrics'>,
  work: Spender,
  rows: readonly BoundRow[],
  { use, isCounted }: { use: Use; isCounted: boolean },
): Spending | undefined => {
  const allowed = allowancesOf(work, rows);
  if (allowed.length === 0) return undefined;
  let spent: SpentUse[] = [];
  const uses = isCounted ? [] : rows.flatMap((row) => countedUses(row, boundOfUse(work.caller, row), work.actor_id));
  return {
    async spend(charge, { isUnsent, isOfCode }) {
      const isAdded = isCounted && !isOfCode;
      const refusal =
        findOverspent(allowed, charge) ?? (isAdded ? undefined : await addToTotals(work, allowed, charge as Charge));
      if (!refusal) return void (spent = spentOf(allowed, (charge as Charge).amount));
      if (isUnsent && uses.length > 0) await work.db.transaction((query) => returnUses(query, work.tenant_id, uses));
      refuseUse(ctx, refusal.row, use, overspent(refusal.sentence, use));
    },
    giveBack: () => giveBackUses(work.db, spent),
  };
};

/** The check of what a request would charge. Adds it to no total. @returns undefined where no token has an allowance. */
export const findChargeCheck = async (
  work: Spender,
  rows: readonly BoundRow[],
  charge: () => Promise<Charge | string>,
): Promise<Check | undefined> => {
  const allowed = allowancesOf(work, rows);
  if (allowed.length === 0) return undefined;
  const read = await charge();
  const above = async (): Promise<Refusal | undefined> =>
    totalReached(allowed, await findAboveTotal(work.db, sumsOf(allowed), (read as Charge).amount));
  const refusal = findOverspent(allowed, read) ?? (await above());
  const detail = refusal ? `bound_to.allowance: ${refusal.sentence}.` : 'What the request charges is allowed.';
  return { name: 'bound_to', ok: refusal === undefined, detail };
};
