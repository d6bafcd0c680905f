// What deduplication answers: the record of a token with an equal value, if the caller may see at least its mask.
import type { Work } from '../access/work.ts';
import { noteDecision } from '../access/decisions.ts';
import { disclosureOf, wouldDecide } from '../access/rules.ts';
import type { LoggedToken } from '../../platform/db/audit-record.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import { payloadTooLarge } from '../../platform/base/errors.ts';
import type { TokensContext } from './context.ts';
import { ExpressionError } from './expressions/expression-error.ts';
import type { Meter } from './expressions/meter.ts';
import type { StoredToken } from './rows/token-row.ts';
import { openToken, recordOfRow, type TokenRecord, visibilityOfToken } from './tokens.ts';

const tooLarge = () => payloadTooLarge('The tokens that deduplication finds are too large for one answer.');

export type SeenToken = { record: TokenRecord; logged: LoggedToken };

/** The first of them that the caller may see. */
export const firstSeen = (
  ctx: TokensContext,
  work: Work,
  equal: StoredToken[],
  keys: TenantKeys,
  meter: Meter,
): SeenToken | undefined => {
  for (const row of equal) {
    const seen = recordOfEqual(ctx, work, row, keys, meter);
    if (seen) return seen;
  }
  return undefined;
};

/**
 * The record of an equal token, at most with its masked value. Undefined for a caller who may not see the mask: otherwise
 * the caller could find out whether a value that it guesses is stored.
 */
export const recordOfEqual = (
  ctx: TokensContext,
  work: Work,
  row: StoredToken,
  keys: TenantKeys,
  meter: Meter,
): SeenToken | undefined => {
  const transform = wouldDecide(work.caller, 'token:read', row);
  if (transform === undefined || transform === 'redact') return undefined;
  if (row.sealed === null) throw tooLarge();
  // This verifies the fingerprint too, by which the row was found.
  const kept = openToken(ctx, work.tenant_id, row, keys);
  if (visibilityOfToken(transform, row, kept) === 'nothing') return undefined;
  noteDecision(work, 'token:read', row, 'masked', kept);
  try {
    // The caller sees at least the mask, and has sent the value.
    const record = recordOfRow(ctx, work.tenant_id, row, kept, 'mask', { meter, isPrintShown: true });
    const disclosure = disclosureOf(visibilityOfToken('mask', row, kept));
    return { record, logged: { id: row.id, type: row.type, disclosure } };
  } catch (error) {
    if (error instanceof ExpressionError) throw tooLarge();
    throw error;
  }
};
