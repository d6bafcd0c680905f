// The tokens of a dry run: what decides about each, and its mask as far as the caller may read it. Uses no value and counts nothing.
import { type LoggedToken, tokenLogRows } from '../../platform/db/audit-record.ts';
import type { Json } from '../../platform/json/json.ts';
import { mapInSlices } from '../../platform/json/slices.ts';
import type { Use } from '../access/bounds.ts';
import { type Check, ruleCheck, tokenChecks } from '../access/checks.ts';
import { findDailyCheck } from '../access/daily-counts.ts';
import { type Decision, explainDecision, type Subject } from '../access/explain-decision.ts';
import { boundOfUse, decide, visibilityOf } from '../access/rules.ts';
import { findOwnSubject } from '../access/subject.ts';
import type { Work } from '../access/work.ts';
import type { Charge } from '../access/allowance.ts';
import { findBoundChecks, findChargeCheck } from './bound-uses.ts';
import type { TokensContext } from './context.ts';
import { findRows, type FoundRow, refuseMissing } from './detokenize.ts';
import type { ExpansionRecord, References } from './expressions/expansion.ts';
import { createMeter, type Meter } from './expressions/meter.ts';
import type { StoredToken } from './rows/token-row.ts';
import { hasMask, type Kept, openToken, recordOfRow, shownData } from './tokens.ts';

/** Decision about a token that a request refers to. */
export type UsedToken = Pick<Decision, 'by' | 'shows' | 'skipped'> & {
  id: string;
  decision: 'allowed' | 'refused';
  checks: Check[];
};

export type MaskedUse = {
  subject: Subject;
  tokens: UsedToken[];
  /** Checks of the request as a whole. */
  checks: Check[];
  /** Answers like `TokenValues`: an expression reads the mask, or nothing. */
  maskOf(id: string, whole: boolean): ExpansionRecord | undefined;
  /** The check of what the request would charge; undefined where no token has an allowance. */
  checkCharge(charge: () => Promise<Charge | string>): Promise<Check | undefined>;
  /** Whether a mask was opened, and for which tokens. */
  shown: LoggedToken[];
};

/** Only the mask is kept of what was opened. */
const masksOf = (
  ctx: TokensContext,
  { tenant_id }: Work,
  { row, kept, isWhole, meter }: { row: FoundRow; kept: Kept; isWhole: boolean; meter: Meter },
): { data: ExpansionRecord; whole: ExpansionRecord } => {
  const { data } = shownData(ctx, row, kept, 'mask', { meter });
  const masked: ExpansionRecord = data === undefined ? {} : { data };
  if (!isWhole) return { data: masked, whole: {} };
  const options = { meter, isPrintShown: false };
  const record = recordOfRow(ctx, tenant_id, row as unknown as StoredToken, kept, 'mask', options);
  const whole = Object.entries(record).filter(([, value]) => value !== undefined);
  return { data: masked, whole: Object.fromEntries(whole) as Record<string, Json> };
};

/**
 * @throws badRequest for unknown tokens, as a request would be; unavailable.
 */
export const findMaskedUse = async (
  ctx: TokensContext,
  work: Work,
  { ids, isWhole }: Pick<References, 'ids' | 'isWhole'>,
  use: Use,
): Promise<MaskedUse> => {
  const subject = await findOwnSubject(ctx, work);
  const rows = ids.size === 0 ? [] : await findRows(ctx, work, { ids, isWhole });
  refuseMissing(ids, rows);
  const keys = await ctx.keyring.tenantKeys(work.tenant_id);
  const bounds = await findBoundChecks(
    work.db,
    rows.map((row) => ({ id: row.id, bound_to: row.bound_to, ofRule: boundOfUse(work.caller, row) })),
    { use, key: keys.digest, application_id: work.actor_id, now: ctx.now() },
  );
  const meter = createMeter();
  const masks = new Map<string, ReturnType<typeof masksOf>>();
  const shown: LoggedToken[] = [];
  const usedToken = (row: FoundRow): UsedToken => {
    const read = decide(work, 'token:read', row);
    // A value beyond the bytes of a request has no mask here, and the request itself is a 413.
    const kept = row.sealed === null ? undefined : openToken(ctx, work.tenant_id, row, keys);
    const hasOne = kept !== undefined && hasMask(row, kept);
    if (kept && hasOne && visibilityOf(read, hasOne) !== 'nothing') {
      masks.set(row.id, masksOf(ctx, work, { row, kept, isWhole, meter }));
      shown.push({ id: row.id, type: row.type, disclosure: 'masked' });
    }
    const found = explainDecision(subject, 'token:use', row, { masked: hasOne });
    const { by, shows, skipped, isAllowed } = found;
    const bound = bounds.get(row.id);
    const checks = [ruleCheck(found, 'token:use'), ...tokenChecks(row, ctx.now()), ...(bound ? [bound] : [])];
    const decision = isAllowed && bound?.ok !== false ? 'allowed' : 'refused';
    return { id: row.id, decision, by, shows, checks, skipped };
  };
  const tokens = await ctx.accounts.runInTurns(work.tenant_id, mapInSlices(rows, usedToken));
  const checks = await findDailyCheck(ctx, work, subject, 'daily_uses', [...ids]);
  const maskOf = (id: string, whole: boolean): ExpansionRecord | undefined =>
    ids.has(id) ? (masks.get(id)?.[whole ? 'whole' : 'data'] ?? {}) : undefined;
  const checkCharge: MaskedUse['checkCharge'] = (charge) => findChargeCheck(work, rows, charge);
  return { subject, tokens, checks, maskOf, checkCharge, shown };
};

/** Whether the request itself would be let through. */
export const isAllowed = ({ tokens, checks }: Pick<MaskedUse, 'tokens' | 'checks'>): boolean =>
  tokens.every(({ decision }) => decision === 'allowed') && checks.every(({ ok }) => ok);

/** The reading of masks is logged as each other reading. */
export const maskRows = (ctx: TokensContext, work: Work, { shown }: Pick<MaskedUse, 'shown'>) =>
  tokenLogRows(ctx, work, 'read', shown);
