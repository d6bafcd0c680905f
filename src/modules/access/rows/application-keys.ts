// Rows of the API keys of one application: listed, changed and deleted by its id and their public ids.
import type { TenantDatabase } from '../../../platform/db/database.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';
import type { KeySettings } from './find-api-key.ts';

export type StoredKey = KeySettings & {
  public_id: string;
  last_used_at: Date | null;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

const columns = {
  public_id: true,
  name: true,
  expires_at: true,
  allowed_addresses: true,
  last_used_at: true,
  created_at: true,
  created_by: true,
  modified_at: true,
  modified_by: true,
} as const;

/** Newest first. An application has few keys (API_KEYS_MAX). */
export const listKeysOf = ({ prisma, tenant_id }: TenantDatabase, application_id: string): Promise<StoredKey[]> =>
  prisma((client) =>
    client.api_keys.findMany({
      where: { tenant_id, application_id },
      orderBy: [{ created_at: 'desc' }, { public_id: 'asc' }],
      select: columns,
    }),
  );

export const countKeysOf = ({ prisma, tenant_id }: PrismaTransaction, application_id: string): Promise<number> =>
  prisma.api_keys.count({ where: { tenant_id, application_id } });

export const countKeysOfTenant = ({ prisma, tenant_id }: PrismaTransaction): Promise<number> =>
  prisma.api_keys.count({ where: { tenant_id } });

/** A key of the tenant with its application; undefined for an unknown one, and for a row that was tampered with. */
export const findKey = async (
  { prisma, tenant_id, signing }: PrismaTransaction,
  public_id: string,
): Promise<(KeySettings & { application_id: string }) | undefined> => {
  const row = await prisma.api_keys.findFirst({ where: { tenant_id, public_id } });
  return row && (await signing.isIntact('api_keys', row)) ? row : undefined;
};

/** @returns the changed key; undefined where the application has no such key. */
export const updateKey = async (
  { prisma, tenant_id, signing }: PrismaTransaction,
  application_id: string,
  public_id: string,
  /** `modified_by` is null where the operator changed it. */
  data: KeySettings & { modified_at: Date; modified_by: string | null },
): Promise<StoredKey | undefined> => {
  const where = { tenant_id, application_id, public_id };
  await signing.change('api_keys', public_id);
  if ((await prisma.api_keys.updateMany({ where, data })).count === 0) return undefined;
  return (await prisma.api_keys.findFirst({ where, select: columns })) ?? undefined;
};

/** @returns whether the application had such a key. */
export const deleteKey = async (
  { prisma, tenant_id, signing }: PrismaTransaction,
  application_id: string,
  public_id: string,
): Promise<boolean> => {
  await signing.revoke('tenants');
  return (await prisma.api_keys.deleteMany({ where: { tenant_id, application_id, public_id } })).count > 0;
};
