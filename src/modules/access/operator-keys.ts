// What the operator does with a tenant's API keys: lists their public parts, and revokes one.
import { publicIdIn } from './api-keys.ts';
import { KEY_REVOKED, logRow, operator } from '../../platform/audit/record.ts';
import { StartError } from '../../platform/errors.ts';
import type { AccessContext } from './context.ts';
import { deleteApiKey, listApiKeys } from './rows/find-api-key.ts';
import { operatorTransaction } from './work.ts';

/** A key without its secret part. */
export type ListedKey = { key: string; application_id: string; application_name: string; created_at: Date };

/** @returns the tenant's keys, oldest first. */
export const listKeys = async (ctx: AccessContext, tenant_id: string): Promise<ListedKey[]> =>
  (await listApiKeys(ctx.db.for({ tenant_id }))).map(({ public_id, ...key }) => ({
    key: `svc_${ctx.environment}_${public_id}`,
    ...key,
  }));

/** Ends a key of the tenant, in running servers too. @throws StartError for a key that the tenant does not have. */
export const revokeKey = async (ctx: AccessContext, tenant_id: string, key: string): Promise<void> => {
  const public_id = publicIdIn(key);
  const isRevoked =
    public_id !== undefined &&
    (await operatorTransaction(ctx, tenant_id, async (tx) => {
      const id = await deleteApiKey(tx, public_id);
      if (id === undefined) return false;
      const entity = { entity_type: 'application', entity_ids: [id] };
      tx.log(logRow(ctx, operator, { operation: 'update', ...entity, message: KEY_REVOKED }));
      tx.changed({ subject: 'application', id });
      return true;
    }));
  if (!isRevoked)
    throw new StartError('The tenant has no such key. List its keys: npm run -s strongroom -- keys list --tenant ID');
};
