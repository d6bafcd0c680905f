// The API keys of an application: several may work at once, so that clients change to a new key one by one.
import { KEY_CHANGED, KEY_CREATED, KEY_REVOKED, logRow } from '../../platform/db/audit-record.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import { invalidField, notFound, tooManyRecords } from '../../platform/base/errors.ts';
import type { Page } from '../../platform/base/pagination.ts';
import { newApiKey, type NewApiKey } from './api-keys.ts';
import { grantsOf } from './applications.ts';
import type { AccessContext } from './context.ts';
import { checkGrants } from './grants.ts';
import {
  countKeysOf,
  countKeysOfTenant,
  deleteKey,
  insertApiKey,
  listKeysOf,
  type StoredKey,
  updateKey,
} from './rows/api-keys.ts';
import { findApplication, lockApplication, type StoredApplication } from './rows/applications.ts';
import type { Work } from './work.ts';

/** Keys of one application, expired ones too: a key for each place that runs it, and room to change them. */
export const API_KEYS_MAX = 20;

/** API keys of a tenant, above which no application gets a further one: two for each of APPLICATIONS_MAX. A revocation signs all again. */
export const API_KEYS_OF_TENANT_MAX = 20_000;

/** A key on the wire. Undefined properties are left out. */
export type KeyRecord = {
  /** The public part of the key. */
  id: string;
  tenant_id: string;
  application_id: string;
  name: string | undefined;
  expires_at: string | undefined;
  allowed_addresses: string[] | undefined;
  last_used_at: string | undefined;
  /** Only in the answer to the request that created it. */
  key?: string;
  created_by: string | undefined;
  created_at: string;
  modified_by: string | undefined;
  modified_at: string | undefined;
};

export type KeyInput = { name: string | undefined; expires_at: Date | undefined; allowed_addresses: string[] };

const recordOf = (tenant_id: string, application_id: string, row: StoredKey): KeyRecord => ({
  id: row.public_id,
  tenant_id,
  application_id,
  name: row.name ?? undefined,
  expires_at: row.expires_at?.toISOString(),
  allowed_addresses: row.allowed_addresses.length > 0 ? row.allowed_addresses : undefined,
  last_used_at: row.last_used_at?.toISOString(),
  created_by: row.created_by ?? undefined,
  created_at: row.created_at.toISOString(),
  modified_by: row.modified_by ?? undefined,
  modified_at: row.modified_at?.toISOString(),
});

const columnsOf = ({ name, expires_at, allowed_addresses }: KeyInput) => ({
  name: name ?? null,
  expires_at: expires_at ?? null,
  allowed_addresses,
});

/** Writes a further key of an application that is locked. @throws conflict for too many. */
export const addKey = async (
  tx: PrismaTransaction,
  application_id: string,
  apiKey: NewApiKey,
  row: ReturnType<typeof columnsOf> & { created_at: Date; created_by?: string },
): Promise<void> => {
  if ((await countKeysOf(tx, application_id)) >= API_KEYS_MAX)
    throw tooManyRecords(`The application has ${API_KEYS_MAX} API keys: delete one first.`);
  if ((await countKeysOfTenant(tx)) >= API_KEYS_OF_TENANT_MAX)
    throw tooManyRecords(`A tenant may have ${API_KEYS_OF_TENANT_MAX} API keys: delete some first.`);
  await insertApiKey(tx, application_id, { public_id: apiKey.public_id, digest: apiKey.digest, ...row });
};

/** @throws invalidInput for an end that is not ahead. */
const checkEnd = ({ now }: Pick<AccessContext, 'now'>, { expires_at }: KeyInput): void => {
  if (expires_at && expires_at <= now()) throw invalidField('expires_at', 'must be in the future', 'in_the_past');
};

/** @throws notFound for an application that the tenant does not have. */
const getApplicationRow = async (tx: PrismaTransaction, id: string): Promise<StoredApplication> => {
  const row = await lockApplication(tx, id);
  if (!row) throw notFound('application');
  return row;
};

/** Writes a change of an application's keys with its log row, and makes every process forget its callers. */
const changeKeys = <T>(
  ctx: AccessContext,
  work: Work,
  { id: application_id, key_id, message }: { id: string; key_id: string; message: string },
  change: (tx: PrismaTransaction, application: StoredApplication) => Promise<T>,
): Promise<T> =>
  work.prismaTransaction(async (tx) => {
    const result = await change(tx, await getApplicationRow(tx, application_id));
    const entity = { entity_type: 'application', entity_ids: [application_id] };
    tx.log({ ...logRow(ctx, work, { operation: 'update', ...entity, message }), event: { key_id } });
    tx.changed({ subject: 'application', id: application_id });
    return result;
  });

const findKeys = async ({ db, tenant_id }: Work, application_id: string): Promise<KeyRecord[]> => {
  if (!(await findApplication(db, application_id))) throw notFound('application');
  const rows = await listKeysOf(db, application_id);
  return rows.map((row) => recordOf(tenant_id, application_id, row));
};

const logRead = (ctx: AccessContext, work: Work, application_id: string): Promise<void> =>
  work.log([logRow(ctx, work, { operation: 'read', entity_type: 'application', entity_ids: [application_id] })]);

/** A page of all keys of an application, newest first, or of those of some ids. @throws notFound. */
export const listKeys = async (
  ctx: AccessContext,
  work: Work,
  { id, key_ids }: { id: string; key_ids: string[] | undefined },
): Promise<Page<KeyRecord>> => {
  const data = (await findKeys(work, id)).filter((key) => key_ids?.includes(key.id) ?? true);
  await logRead(ctx, work, id);
  const pagination = {
    total_items: data.length,
    page_number: 1,
    page_size: API_KEYS_MAX,
    total_pages: Math.min(1, data.length),
  };
  return { pagination, data };
};

/** @throws notFound for an unknown application and for a key that it does not have. */
export const getKey = async (
  ctx: AccessContext,
  work: Work,
  { id, key_id }: { id: string; key_id: string },
): Promise<KeyRecord> => {
  const key = (await findKeys(work, id)).find((each) => each.id === key_id);
  if (!key) throw notFound('API key');
  await logRead(ctx, work, id);
  return key;
};

/**
 * Adds a key; the others go on to work. The caller gets all that the application holds with it.
 * @returns the key with its secret. @throws notFound; forbidden for what the caller does not hold; conflict for too many.
 */
export const createKey = (ctx: AccessContext, work: Work, id: string, input: KeyInput): Promise<KeyRecord> => {
  checkEnd(ctx, input);
  const apiKey = newApiKey(ctx);
  const settings = columnsOf(input);
  const created = { created_at: ctx.now(), created_by: work.actor_id };
  return changeKeys(ctx, work, { id, key_id: apiKey.public_id, message: KEY_CREATED }, async (tx, application) => {
    checkGrants(work, grantsOf(ctx, application));
    await addKey(tx, id, apiKey, { ...settings, ...created });
    const row = { public_id: apiKey.public_id, ...settings, ...created };
    const shown = recordOf(work.tenant_id, id, { ...row, last_used_at: null, modified_at: null, modified_by: null });
    return { ...shown, key: apiKey.key.reveal() };
  });
};

/**
 * Replaces name, end and addresses of a key, at once and in all processes.
 * @throws notFound; forbidden for what the caller does not hold, as the change may let the key work again.
 */
export const changeKey = (
  ctx: AccessContext,
  work: Work,
  { id, key_id }: { id: string; key_id: string },
  input: KeyInput,
): Promise<KeyRecord> =>
  changeKeys(ctx, work, { id, key_id, message: KEY_CHANGED }, async (tx, application) => {
    checkGrants(work, grantsOf(ctx, application));
    const changed = { ...columnsOf(input), modified_at: ctx.now(), modified_by: work.actor_id };
    const row = await updateKey(tx, id, key_id, changed);
    if (!row) throw notFound('API key');
    return recordOf(work.tenant_id, id, row);
  });

/** Ends one key and the sessions that it created, at once and in all processes. The other keys stay. @throws notFound. */
export const revokeKey = (
  ctx: AccessContext,
  work: Work,
  { id, key_id }: { id: string; key_id: string },
): Promise<void> =>
  changeKeys(ctx, work, { id, key_id, message: KEY_REVOKED }, async (tx) => {
    if (!(await deleteKey(tx, id, key_id))) throw notFound('API key');
  });
