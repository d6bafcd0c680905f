// Asks the bounds of a token, and of the access rule that lets a caller use it, about one use; counts uses.
import {
  bindsDestination,
  boundRefusal,
  type Breach,
  findBreach,
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
import { type CountedUse, countUses, findSpent } from './rows/token-uses.ts';

export type BoundRow = Pick<StoredValue, 'id' | 'type' | 'container' | 'bound_to'>;

export const refuseUse = (ctx: Pick<TokensContext, 'metrics'>, row: BoundRow, use: Use, breach: Breach): never => {
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
export const countedUses = (
  { id: token_id, bound_to }: { id: string; bound_to: StoredBound | null },
  ofRule: StoredBound | undefined,
  application_id: string,
): CountedUse[] => [
  ...(bound_to?.max_uses === undefined ? [] : [{ token_id, application_id: undefined, most: bound_to.max_uses }]),
  ...(ofRule?.max_uses === undefined ? [] : [{ token_id, application_id, most: ofRule.max_uses }]),
];

/** A use that is only asked about. `use` is undefined where no destination is named: then times and counts are asked. */
export type AskedUse = { use: Use | undefined; key: DigestKey; application_id: string; now: Date };

/** A token with its own bound, and the one of the rule that lets a caller use it. */
export type BoundToken = { id: string; bound_to: StoredBound | null; ofRule: StoredBound | undefined };

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
