// Claims on security codes: a request that sends a code holds it until the destination has answered.
// A code is known by its sealed bytes too, so that a code that was collected again meanwhile is another one.
import type { TenantQuery } from '../../../platform/db/database.ts';
import type { Query } from '../../../platform/db/statements.ts';

/** A stored code: of a token, and its sealed bytes in base64. */
export type StoredCode = { id: string; sealed: string };

const wanted = `unnest($2::text[], $3::text[]) AS w(id, sealed)`;
const isWanted = `c.tenant_id = $1 AND c.id = w.id AND c.sealed = decode(w.sealed, 'base64')`;

/**
 * Locked in the order of ids, so that two requests with the same cards wait for each other instead of locking each other out.
 * A repetition of the request that holds a code is no second request.
 */
const CLAIM = `
WITH free AS (
  SELECT c.id FROM token_cvcs c JOIN ${wanted} ON ${isWanted}
  WHERE c.claimed_until IS NULL OR c.claimed_until <= $4 OR c.claimed_by = $6::uuid ORDER BY c.id FOR UPDATE OF c
)
UPDATE token_cvcs c SET claimed_until = $5, claimed_by = $6::uuid
FROM free WHERE c.tenant_id = $1 AND c.id = free.id RETURNING c.id`;

/** A claim that is over may be another request's by now. */
const RELEASE = `
UPDATE token_cvcs c SET claimed_until = NULL FROM ${wanted} WHERE ${isWanted} AND c.claimed_until = $4`;

const CONSUME = `DELETE FROM token_cvcs c USING ${wanted} WHERE ${isWanted}`;

/** Codes that were kept often enough go. */
const KEEP = `
WITH gone AS (
  DELETE FROM token_cvcs c USING ${wanted} WHERE ${isWanted} AND c.kept >= $4
)
UPDATE token_cvcs c SET claimed_until = NULL, kept = c.kept + 1 FROM ${wanted} WHERE ${isWanted} AND c.kept < $4
RETURNING c.id`;

const listsOf = (codes: readonly StoredCode[]) => [codes.map(({ id }) => id), codes.map(({ sealed }) => sealed)];

/**
 * @param forward_id of the record that the request has, if it has one: another attempt of the same may take over.
 * @returns whether all of them were free. If not, the transaction must fail.
 */
export const claimCodes = async (
  query: Query,
  tenant_id: string,
  codes: readonly StoredCode[],
  { now, until, forward_id = null }: { now: Date; until: Date; forward_id: string | null | undefined },
): Promise<boolean> => {
  const values = [tenant_id, ...listsOf(codes), now, until, forward_id];
  const claimed = (await query('claim-codes', CLAIM, values)) as unknown[];
  return claimed.length === codes.length;
};

export const releaseCodes = async (
  { query, tenant_id }: TenantQuery,
  codes: readonly StoredCode[],
  until: Date,
): Promise<void> => {
  await query('release-codes', RELEASE, [tenant_id, ...listsOf(codes), until]);
};

export const consumeCodes = async ({ query, tenant_id }: TenantQuery, codes: readonly StoredCode[]): Promise<void> => {
  await query('consume-codes', CONSUME, [tenant_id, ...listsOf(codes)]);
};

/** Keeps codes that were kept fewer than `most` times, and deletes the others. @returns whether all were kept. */
export const keepCodes = async (
  { query, tenant_id }: TenantQuery,
  codes: readonly StoredCode[],
  most: number,
): Promise<boolean> => {
  const kept = (await query('keep-codes', KEEP, [tenant_id, ...listsOf(codes), most])) as unknown[];
  return kept.length === codes.length;
};
