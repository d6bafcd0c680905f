// Asks the bounds of a token, and of the access rule that lets a caller use it, about one use; counts uses.
import { boundRefusal, type Breach, findBreach, type Use, usedUp } from '../access/bounds.ts';
import { boundOfUse } from '../access/rules.ts';
import type { Work } from '../access/work.ts';
import type { DigestKey } from '../../platform/crypto/digest.ts';
import type { Query } from '../../platform/db/statements.ts';
import type { TokensContext } from './context.ts';
import type { StoredValue } from './rows/token-row.ts';
import { type CountedUse, countUses } from './rows/token-uses.ts';

type Row = Pick<StoredValue, 'id' | 'type' | 'container' | 'bound_to'>;

const refuse = (ctx: Pick<TokensContext, 'metrics'>, row: Row, use: Use, breach: Breach): never => {
  ctx.metrics.count('strongroom_bound_refusals_total', { bound: breach.bound });
  throw boundRefusal(row, breach, use.kind === 'proxy' ? use.host : undefined);
};

/** Every bound that exists must hold: that of the token, and that of the rule. @returns the first that does not. */
export const findFirstBreach = (
  ctx: Pick<TokensContext, 'now'>,
  work: Pick<Work, 'caller'>,
  row: Row,
  { use, key }: { use: Use; key: DigestKey },
): Breach | undefined => {
  const about = { token_id: row.id, key, now: ctx.now() };
  return findBreach(row.bound_to, use, about) ?? findBreach(boundOfUse(work.caller, row), use, about);
};

/** @throws forbidden naming the attribute of a bound that does not hold. */
export const checkBounds = (
  ctx: Pick<TokensContext, 'metrics' | 'now'>,
  work: Pick<Work, 'caller'>,
  row: Row,
  about: { use: Use; key: DigestKey },
): void => {
  const breach = findFirstBreach(ctx, work, row, about);
  if (breach) refuse(ctx, row, about.use, breach);
};

/** Counts uses in a transaction. @throws forbidden where one is above its limit. */
export type CountUses = (query: Query) => Promise<void>;

/** Undefined where no bound counts uses. */
export const countingOf = (
  ctx: Pick<TokensContext, 'metrics'>,
  work: Pick<Work, 'caller' | 'tenant_id' | 'actor_id'>,
  rows: readonly Row[],
  use: Use,
): CountUses | undefined => {
  const counted = rows.flatMap((row): CountedUse[] => {
    const own = row.bound_to?.max_uses;
    const ofRule = boundOfUse(work.caller, row)?.max_uses;
    return [
      ...(own === undefined ? [] : [{ token_id: row.id, application_id: undefined, most: own }]),
      ...(ofRule === undefined ? [] : [{ token_id: row.id, application_id: work.actor_id, most: ofRule }]),
    ];
  });
  if (counted.length === 0) return undefined;
  return async (query) => {
    const above = await countUses(query, work.tenant_id, counted);
    const row = above && rows.find(({ id }) => id === above.token_id);
    if (row) refuse(ctx, row, use, usedUp({ max_uses: above.most }, use));
  };
};
