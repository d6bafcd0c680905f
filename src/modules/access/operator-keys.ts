// What the operator does with a tenant's API keys: lists their public parts, adds one to an application, rotates and revokes one.
import { nameSchema } from './names.ts';
import { newApiKey, publicIdIn } from './api-keys.ts';
import { addKey } from './application-keys.ts';
import { KEY_CHANGED, KEY_CREATED, KEY_REVOKED, logRow, operator } from '../../platform/db/audit-record.ts';
import type { Sensitive } from '../../platform/crypto/sensitive.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import { AppError, notFound, StartError } from '../../platform/base/errors.ts';
import type { AccessContext } from './context.ts';
import { deleteApiKey, deleteKey, findKey, listApiKeys, updateKey } from './rows/api-keys.ts';
import { lockApplication } from './rows/applications.ts';
import { operatorTransaction } from './work.ts';
import { PROGRAM } from '../../platform/base/program.ts';

/** A key without its secret part. */
export type ListedKey = {
  key: string;
  application_id: string;
  application_name: string;
  created_at: Date;
  /** Left out: no end. */
  expires_at: Date | undefined;
};

const NO_SUCH_KEY = `The tenant has no such key. List its keys: ${PROGRAM} api-keys list --tenant ID`;

/** @returns the tenant's keys, oldest first. */
export const listKeys = async (ctx: AccessContext, tenant_id: string): Promise<ListedKey[]> =>
  (await listApiKeys(ctx.db.for({ tenant_id }))).map(({ public_id, expires_at, ...key }) => ({
    key: `svc_${ctx.environment}_${public_id}`,
    ...key,
    expires_at: expires_at ?? undefined,
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
      tx.log({
        ...logRow(ctx, operator, { operation: 'update', ...entity, message: KEY_REVOKED }),
        event: { key_id: public_id },
      });
      tx.changed({ subject: 'application', id });
      return true;
    }));
  if (!isRevoked) throw new StartError(NO_SUCH_KEY);
};

export type AddedKey = { application_id: string; api_key: Sensitive<string>; expires_at: Date | undefined };

/** A log row of the operator for a change of an application's keys; every process forgets its callers. */
const logChange = (
  ctx: AccessContext,
  tx: PrismaTransaction,
  { id, key_id, message }: { id: string; key_id: string; message: string },
): void => {
  const row = logRow(ctx, operator, { operation: 'update', entity_type: 'application', entity_ids: [id], message });
  tx.log({ ...row, event: { key_id } });
  tx.changed({ subject: 'application', id });
};

/** Rethrows what the operator can correct as a StartError: an unknown application or key, too many keys. */
const throwToOperator = (error: unknown): never => {
  const isTheirs = error instanceof AppError && ['not_found', 'conflict'].includes(error.code);
  throw isTheirs ? new StartError(`${error.message} List keys and applications: ${PROGRAM} api-keys list`) : error;
};

type NewKeySettings = { name: string | null; expires_at: Date | null; allowed_addresses: string[] };

const insertKey = async (
  ctx: AccessContext,
  tx: PrismaTransaction,
  application_id: string,
  settings: NewKeySettings,
): Promise<AddedKey> => {
  if (!(await lockApplication(tx, application_id))) throw notFound('application');
  const apiKey = newApiKey(ctx);
  await addKey(tx, application_id, apiKey, { ...settings, created_at: ctx.now() });
  logChange(ctx, tx, { id: application_id, key_id: apiKey.public_id, message: KEY_CREATED });
  return { application_id, api_key: apiKey.key, expires_at: settings.expires_at ?? undefined };
};

/**
 * Adds a key to an application, whose other keys go on to work.
 * @throws StartError for an unknown application, a name that is not valid, an end in the past and too many keys.
 */
export const addApplicationKey = (
  ctx: AccessContext,
  tenant_id: string,
  application_id: string,
  { name, expires_at }: { name: string | undefined; expires_at: Date | undefined },
): Promise<AddedKey> => {
  if (expires_at && expires_at <= ctx.now()) throw new StartError('The key must end in the future.');
  const { error } = nameSchema.optional().safeParse(name);
  if (error) throw new StartError(`The name ${error.issues[0]?.message}.`);
  const settings = { name: name ?? null, expires_at: expires_at ?? null, allowed_addresses: [] };
  return operatorTransaction(ctx, tenant_id, (tx) => insertKey(ctx, tx, application_id, settings)).catch(
    throwToOperator,
  );
};

/**
 * Adds a key with the name and addresses of another to its application, and ends the other: at once, or after a time. The other keeps
 * an end that comes earlier.
 * @throws StartError for a key that the tenant does not have.
 */
export const rotateKey = (
  ctx: AccessContext,
  tenant_id: string,
  key: string,
  afterMs: number,
): Promise<AddedKey & { old_ends_at: Date }> => {
  const public_id = publicIdIn(key);
  const modified_at = ctx.now();
  return operatorTransaction(ctx, tenant_id, async (tx) => {
    const old = public_id === undefined ? undefined : await findKey(tx, public_id);
    if (!public_id || !old) throw notFound('API key');
    const { application_id, name, allowed_addresses, expires_at } = old;
    const settings = { name, allowed_addresses };
    const old_ends_at = new Date(Math.min(modified_at.getTime() + afterMs, expires_at?.getTime() ?? Infinity));
    // The end comes first: an application with as many keys as it may have can be rotated at once.
    if (afterMs === 0) await deleteKey(tx, application_id, public_id);
    else
      await updateKey(tx, application_id, public_id, {
        ...settings,
        expires_at: old_ends_at,
        modified_at,
        modified_by: null,
      });
    const message = afterMs === 0 ? KEY_REVOKED : KEY_CHANGED;
    logChange(ctx, tx, { id: application_id, key_id: public_id, message });
    const added = await insertKey(ctx, tx, application_id, { ...settings, expires_at: null });
    return { ...added, old_ends_at };
  }).catch(throwToOperator);
};
