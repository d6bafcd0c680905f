// Statements of answers about access. They read columns that no value is in.
import type { TenantQuery } from '../../platform/db/database.ts';
import type { StoredBound } from '../access/bounds.ts';

/** A token without its value. `masked`: whether it has a mask. */
export type TokenPlace = {
  id: string;
  container: string;
  masked: boolean;
  expires_at: Date | null;
  bound_to: StoredBound | null;
};

const PLACES = `SELECT id, container, masked, expires_at, bound_to FROM tokens WHERE tenant_id = $1::uuid AND id = ANY ($2::text[])`;

/** Those of the tenant, also ones that have expired and are not deleted yet. */
export const findPlaces = async ({ query, tenant_id }: TenantQuery, ids: readonly string[]): Promise<TokenPlace[]> =>
  ids.length === 0 ? [] : ((await query('find-token-places', PLACES, [tenant_id, ids])) as TokenPlace[]);

/** An entry of the log, with what decided about it. */
export type LoggedAct = {
  id: string;
  operation: string;
  entity_type: string;
  entity_ids: string[];
  destination_host: string | null;
  reactor_id: string | null;
  proxy_id: string | null;
};

/** Entries of a statement: 100,000 take 100 of them. */
const ACTS_PAGE = 1_000;

/** A use that failed has a second entry, and an answer of an idempotency key was decided when it was made. */
const ACTS = `SELECT id, operation, entity_type, entity_ids, destination_host, reactor_id, proxy_id FROM audit_log
WHERE tenant_id = $1::uuid AND actor_id = $2::uuid AND id >= $3::uuid AND id < $4::uuid
  AND outcome IN ('success', 'refused') ORDER BY id DESC LIMIT ${ACTS_PAGE}`;

/** What an actor did, newest first. */
export const listActs = (
  { query, tenant_id }: TenantQuery,
  { actor_id, from_id, to_id }: { actor_id: string; from_id: string; to_id: string },
): Promise<LoggedAct[]> => query('list-acts', ACTS, [tenant_id, actor_id, from_id, to_id]) as Promise<LoggedAct[]>;
