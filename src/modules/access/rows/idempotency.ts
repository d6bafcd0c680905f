// Claims on idempotency keys. Prepared SQL: they are on the path of hot requests.
import type { TenantQuery } from '../../../platform/db/database.ts';

export type Claim = { id: string; claim: string; route: string; claimed_until: Date; expires_at: Date };

export type FoundClaim = { claim: string; route: string; status: number | null; sealed: Buffer | null };

/** Takes a key that is free, expired, or left by a process that died; else it changes nothing. */
const TAKE = `
INSERT INTO idempotency_keys (tenant_id, id, claim, route, claimed_until, expires_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant_id, id) DO UPDATE SET claim = excluded.claim, route = excluded.route,
  claimed_until = excluded.claimed_until, expires_at = excluded.expires_at, status = NULL, sealed = NULL
WHERE idempotency_keys.expires_at <= $7 OR (idempotency_keys.sealed IS NULL AND idempotency_keys.claimed_until <= $7)
RETURNING claim`;

const FIND = 'SELECT claim, route, status, sealed FROM idempotency_keys WHERE tenant_id = $1 AND id = $2';

/** A kept answer stays, even where its writer did not hear of the commit and gives up. */
const RELEASE = 'DELETE FROM idempotency_keys WHERE tenant_id = $1 AND id = $2 AND claim = $3 AND sealed IS NULL';

/** Claims a key for one request of all processes. @returns undefined where this request has it now; else what is there. */
export const takeIdempotencyKey = async (
  { query, tenant_id }: TenantQuery,
  { id, claim, route, claimed_until, expires_at }: Claim,
  now: Date,
): Promise<FoundClaim | undefined> => {
  for (;;) {
    const values = [tenant_id, id, claim, route, claimed_until, expires_at, now];
    const taken = await query('take-idempotency-key', TAKE, values);
    if (taken.length > 0) return undefined;
    const [found] = (await query('find-idempotency-key', FIND, [tenant_id, id])) as FoundClaim[];
    // Released between the two statements: it is free again.
    if (found) return found;
  }
};

export const releaseIdempotencyKey = async (
  { query, tenant_id }: TenantQuery,
  { id, claim }: Pick<Claim, 'id' | 'claim'>,
): Promise<void> => {
  await query('release-idempotency-key', RELEASE, [tenant_id, id, claim]);
};
