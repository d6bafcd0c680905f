// Claims on idempotency keys and the answers kept under them. One claim is under way at a time, whichever process has it;
// an answer is written with the deed it tells of, in its transaction, or not at all. Knows sealed bytes only.
import { conflict } from '../errors.ts';
import type { Query, Statements } from './statements.ts';

export type Claim = { id: string; claim: string; route: string; claimed_until: Date; expires_at: Date };

/** The answer of a deed, about to be kept. `sealed` is base64. */
export type KeptAnswer = { id: string; claim: string; status: number; sealed: string; expires_at: Date };

export type FoundClaim = { claim: string; route: string; status: number | null; sealed: Buffer | null };

/** Takes a key that is free, out of time, or left by who died; else nothing changes. */
const TAKE = `
INSERT INTO idempotency_keys (tenant_id, id, claim, route, claimed_until, expires_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant_id, id) DO UPDATE SET claim = excluded.claim, route = excluded.route,
  claimed_until = excluded.claimed_until, expires_at = excluded.expires_at, status = NULL, sealed = NULL
WHERE idempotency_keys.expires_at <= $7 OR (idempotency_keys.sealed IS NULL AND idempotency_keys.claimed_until <= $7)
RETURNING claim`;

const FIND = 'SELECT claim, route, status, sealed FROM idempotency_keys WHERE tenant_id = $1 AND id = $2';

const KEEP = `
UPDATE idempotency_keys SET status = $4, sealed = decode($5, 'base64'), expires_at = $6
WHERE tenant_id = $1 AND id = $2 AND claim = $3 AND sealed IS NULL
RETURNING id`;

/** What is kept stays, even where its writer never heard of the commit and gives up. */
const RELEASE = 'DELETE FROM idempotency_keys WHERE tenant_id = $1 AND id = $2 AND claim = $3 AND sealed IS NULL';

/** Keeps an answer in the transaction of its deed. @throws conflict where another has taken the key over: the deed must not stand. */
export const keepAnswer = async (query: Query, tenantId: string, answer: KeptAnswer): Promise<void> => {
  const { id, claim, status, sealed, expires_at } = answer;
  const kept = await query('keep-answer', KEEP, [tenantId, id, claim, status, sealed, expires_at]);
  if (kept.length === 0) throw conflict('Another request with this idempotency key went on in its place.');
};

export const createIdempotencyStatements = ({ query }: Statements) => ({
  /** @returns undefined where the key is ours now; else what is there. */
  async takeIdempotencyKey(tenantId: string, claim: Claim, now: Date): Promise<FoundClaim | undefined> {
    const { id, route, claimed_until, expires_at } = claim;
    for (;;) {
      const values = [tenantId, id, claim.claim, route, claimed_until, expires_at, now];
      const taken = await query('take-idempotency-key', TAKE, values);
      if (taken.length > 0) return undefined;
      const [found] = (await query('find-idempotency-key', FIND, [tenantId, id])) as FoundClaim[];
      // Released between the two statements: it is free again.
      if (found) return found;
    }
  },
  keepAnswer: (tenantId: string, answer: KeptAnswer): Promise<void> => keepAnswer(query, tenantId, answer),
  async releaseIdempotencyKey(tenantId: string, { id, claim }: { id: string; claim: string }): Promise<void> {
    await query('release-idempotency-key', RELEASE, [tenantId, id, claim]);
  },
});
