// The security code of a stored card, collected again: who may ask for it, what the vault's pages show of the card, and the new code.
import type { Work } from '../access/work.ts';
import type { Caller } from '../access/caller.ts';
import { getTransform, wouldDecide } from '../access/rules.ts';
import { CODE_COLLECTED, logRow, tokenLogRows } from '../../platform/db/audit-record.ts';
import { AppError, invalidField, notFound } from '../../platform/base/errors.ts';
import type { TokensContext } from './context.ts';
import { getTokenRow } from './read-tokens.ts';
import { addToSession, lockToken, putCvc } from './rows/token-transactions.ts';
import type { StoredToken } from './rows/token-row.ts';
import { type Kept, openToken, sealCvc, shownData, visibilityOfToken } from './tokens.ts';

/** @throws notFound; forbidden without token:update on the token; invalidInput at `token_id` for a token that is no card. */
export const checkCardToUpdate = async (ctx: TokensContext, work: Work, id: string): Promise<void> => {
  const row = await getTokenRow(ctx, work, id);
  getTransform(work, 'token:update', row);
  // This verifies the row, by which was decided.
  openToken(ctx, work.tenant_id, row, await ctx.keyring.tenantKeys(work.tenant_id));
  if (row.type !== 'card') throw invalidField('token_id', 'must be the id of a card', 'not_allowed');
};

export type OpenedCard = { row: StoredToken; kept: Kept };

/** A card, for what the vault's own pages show of it; undefined where it is gone. */
export const findCard = async (
  ctx: TokensContext,
  { tenant_id, token_id }: { tenant_id: string; token_id: string },
): Promise<OpenedCard | undefined> => {
  const row = await ctx.tokenRows.findToken({ tenant_id }, token_id, ctx.now());
  if (row?.type !== 'card') return undefined;
  return { row, kept: openToken(ctx, tenant_id, row, await ctx.keyring.tenantKeys(tenant_id)) };
};

const numberOf = (data: unknown): string => String((data as { number?: unknown } | undefined)?.number ?? '');

/** How many digits the security code of a card has, by the first digits of its number. Undefined for brands that are not known. */
export const codeLengthOf = ({ kept }: Pick<OpenedCard, 'kept'>): 3 | 4 | undefined => {
  const number = numberOf(kept.data);
  if (/^3[47]/.test(number)) return 4;
  return /^(?:[24568]|3[05689])/.test(number) ? 3 : undefined;
};

/**
 * The last four digits of a card, for the page of a session: where the mask of the card shows them, and its creator may see the mask.
 * The read is logged before it resolves.
 * @param work of the session. @throws unavailable.
 */
export const showLastFour = async (
  ctx: TokensContext,
  work: Work,
  creator: Caller,
  { row, kept }: OpenedCard,
): Promise<string | undefined> => {
  const transform = wouldDecide(creator, 'token:read', row);
  // A page shows a mask at most: it counts for no daily limit.
  const shown = transform === 'reveal' ? 'mask' : transform;
  if (shown === undefined || visibilityOfToken(shown, row, kept) !== 'masked') return undefined;
  const lastFour = /[0-9]{4}$/.exec(numberOf(shownData(ctx, row, kept, shown).data))?.[0];
  if (lastFour !== undefined)
    await work.log(tokenLogRows(ctx, work, 'read', [{ id: row.id, type: row.type, disclosure: 'masked' }]));
  return lastFour;
};

export const usedUp = () => new AppError('forbidden', 'The session has had all of its tries.');

/**
 * Replaces the security code of a card, and changes nothing else of it: no time, no fingerprint.
 * @param work of a session for this card.
 * @throws notFound where the card is gone; forbidden where the creator of the session may not update it now; unavailable.
 */
export const collectCode = async (
  ctx: TokensContext,
  work: Work,
  { token_id: id, cvc }: { token_id: string; cvc: string },
): Promise<{ id: string; cvc_expires_at: string }> => {
  const { session } = work.caller.publicAccess ?? {};
  if (session?.token_id !== id) throw usedUp();
  const keys = await ctx.keyring.tenantKeys(work.tenant_id);
  const cvcKey = await ctx.keyring.ephemeralKey();
  return work.transaction(async (tx) => {
    const at = ctx.now();
    const row = await lockToken(tx, id, at);
    if (row?.type !== 'card') throw notFound('token');
    getTransform(work, 'token:update', row);
    openToken(ctx, work.tenant_id, row, keys);
    if (!(await addToSession(tx, session, [id], at))) throw usedUp();
    const columns = sealCvc(ctx, work.tenant_id, cvcKey, { id, cvc, at });
    await putCvc(tx, id, columns);
    const entity = { entity_type: row.type, entity_ids: [id], message: CODE_COLLECTED };
    tx.log(logRow(ctx, work, { operation: 'update', ...entity }));
    return { id, cvc_expires_at: columns.cvc_expires_at as string };
  });
};
