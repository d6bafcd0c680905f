// What the operator does with the API keys of a tenant: sees their public parts, and ends one.
import { KEY_REVOKED, logRow, operator } from '../audit/record.ts';
import type { Context } from '../context.ts';
import { StartError } from '../errors.ts';

/** A key without its secret part: what an operator sees of it and names it by. */
export type ListedKey = { key: string; application_id: string; application_name: string; created_at: Date };

/** @returns the tenant's keys, oldest first. */
export const listKeys = async (ctx: Context, tenant_id: string): Promise<ListedKey[]> =>
  (await ctx.db.for({ tenant_id }).listKeys()).map(({ public_id, ...key }) => ({
    key: `svc_${ctx.environment}_${public_id}`,
    ...key,
  }));

/** A public part alone, after its prefix, or in a whole key. */
const KEY_FORM = /^(?:svc_(?:test|live)_)?([0-9A-Za-z]{16})(?:_[0-9A-Za-z]{39})?$/;

/** Ends a key of the tenant. Running servers hear of it. @throws StartError for a key that is not there. */
export const revokeKey = async (ctx: Context, tenant_id: string, key: string): Promise<void> => {
  const public_id = KEY_FORM.exec(key)?.[1];
  const log = (application_id: string) =>
    logRow(ctx, operator, {
      operation: 'update',
      entity_type: 'application',
      entity_ids: [application_id],
      message: KEY_REVOKED,
    });
  const isRevoked = public_id !== undefined && (await ctx.db.for({ tenant_id }).removeKey(public_id, log));
  if (!isRevoked)
    throw new StartError('The tenant has no such key. List its keys: npm run -s strongroom -- keys list --tenant ID');
};
