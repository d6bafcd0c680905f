// Makes keys of tenants: of a new one, and a new data key of an existing one.
import { DATA_KEY_MADE, logRow, operator } from '../../platform/db/audit-record.ts';
import { KEY_SETTLED_AFTER_MS, type KeyPurpose, type NewTenantKeys } from '../../platform/crypto/keyring.ts';
import { createResealRows } from '../../platform/keys/reseal.ts';
import { AppError, unavailable } from '../../platform/base/errors.ts';
import type { AccessContext } from './context.ts';
import { insertTenantKeys } from './rows/tenants.ts';
import { operatorTransaction } from './work.ts';

/** Two rotations of the root key do not follow each other so closely that each attempt meets one. */
const ATTEMPTS_MAX = 3;

/** Makes keys and stores them. Makes them again where a rotation of the root key began in between. @throws what `store` throws. */
export const withNewKeys = async <T>(
  { keyring }: Pick<AccessContext, 'keyring'>,
  tenant_id: string,
  purposes: readonly KeyPurpose[],
  store: (keys: NewTenantKeys) => Promise<T>,
): Promise<T> => {
  for (let attemptsLeft = ATTEMPTS_MAX; attemptsLeft > 0; attemptsLeft -= 1) {
    try {
      return await store(await keyring.newTenantKeys(tenant_id, purposes));
    } catch (error) {
      if (!(error instanceof AppError && error.code === 'conflict')) throw error;
    }
  }
  throw unavailable();
};

/**
 * Makes a new data key of a tenant. It seals after some minutes; then servers re-seal what is under older keys.
 * @returns `early` where the key of an earlier rotation is too new, `gone` where there is no such tenant. @throws unavailable.
 */
export const rotateDataKey = async (ctx: AccessContext, tenant_id: string): Promise<'made' | 'early' | 'gone'> => {
  const [newest, ...older] = await createResealRows(ctx.db).findDataKeys(tenant_id);
  if (!newest) return 'gone';
  // Each rotation re-seals all rows: a further one waits until the last one is over, or nearly.
  if (older.length > 0 && newest.age_ms < KEY_SETTLED_AFTER_MS) return 'early';
  return makeDataKey(ctx, tenant_id);
};

const makeDataKey = (ctx: AccessContext, tenant_id: string): Promise<'made' | 'gone'> =>
  withNewKeys(ctx, tenant_id, ['data'], (keys) =>
    operatorTransaction(ctx, tenant_id, async (tx) => {
      if (!(await insertTenantKeys(tx, keys))) return 'gone';
      tx.log(
        logRow(ctx, operator, {
          operation: 'update',
          entity_type: 'tenant',
          entity_ids: [tenant_id],
          message: DATA_KEY_MADE,
        }),
      );
      return 'made';
    }),
  );
