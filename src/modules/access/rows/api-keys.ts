// Rows of API keys: a keyed digest under the public id of the key.
import type { Database, TenantDatabase } from '../../../platform/db/database.ts';
import { signedColumns } from '../../../platform/db/signed-rows.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';

/** What a key is called and limited by. */
type KeySettings = {
  name: string | null;
  /** Null: no end. */
  expires_at: Date | null;
  /** Networks; empty: all. */
  allowed_addresses: string[];
};

type KeyLimits = Pick<KeySettings, 'expires_at' | 'allowed_addresses'>;

/** Without settings: the first key of an application. */
export type ApiKeyRow = {
  public_id: string;
  digest: Uint8Array;
  created_at?: Date;
  created_by?: string;
} & Partial<KeySettings>;

export type FoundApiKey = {
  tenant_id: string;
  application_id: string;
  digest: Buffer;
  permissions: string[];
  rules: unknown;
  allowed_hosts: string[] | null;
  rate_limit: unknown;
  daily_reveals: number | null;
  daily_uses: number | null;
  echo_guard: string | null;
  type: string;
  allowed_origins: string[];
  container: string | null;
  creates_per_minute: number | null;
  settings: Record<string, string>;
} & KeyLimits;

/** An application with the settings of its tenant. */
export type FoundApplication = Omit<FoundApiKey, 'digest' | keyof KeyLimits>;

type ListedApiKey = {
  public_id: string;
  application_id: string;
  application_name: string;
  created_at: Date;
  expires_at: Date | null;
};

/** The command line prints no more. */
const KEYS_LISTED_MAX = 10_000;

/** All that the caller of a key needs. Hot: each request that the cache does not answer. */
export const FIND_API_KEY = `SELECT ${signedColumns('tenants', 't')}, ${signedColumns('applications', 'a')},
  ${signedColumns('api_keys', 'k')}
FROM api_keys k JOIN applications a ON a.tenant_id = k.tenant_id AND a.id = k.application_id
JOIN tenants t ON t.id = k.tenant_id
WHERE k.public_id = $1`;

const ofKey = ['tenants', 'applications', 'api_keys'] as const;

export const findApiKeyBeforeCaller = async (
  { statements, signedRows }: Pick<Database, 'statements' | 'signedRows'>,
  publicId: string,
): Promise<FoundApiKey | undefined> => {
  const [found] = await signedRows.find(ofKey, () => statements.query('find-api-key', FIND_API_KEY, [publicId]));
  return found && { ...found.applications, ...found.api_keys, settings: found.tenants.settings };
};

/** Oldest first. */
export const listApiKeys = ({ prisma, tenant_id }: TenantDatabase): Promise<ListedApiKey[]> =>
  prisma(async (client) => {
    const [keys, applications] = await Promise.all([
      client.api_keys.findMany({
        where: { tenant_id },
        orderBy: [{ created_at: 'asc' }, { public_id: 'asc' }],
        take: KEYS_LISTED_MAX,
        select: { public_id: true, application_id: true, created_at: true, expires_at: true },
      }),
      client.applications.findMany({ where: { tenant_id }, select: { id: true, name: true } }),
    ]);
    const nameOf = new Map(applications.map(({ id, name }) => [id, name]));
    return keys.map((key) => ({ ...key, application_name: nameOf.get(key.application_id) ?? '' }));
  });

export const insertApiKey = async (
  { prisma, tenant_id, signing }: PrismaTransaction,
  application_id: string,
  { public_id, digest, name, expires_at, allowed_addresses = [], created_at, created_by }: ApiKeyRow,
): Promise<void> => {
  await signing.add('api_keys', public_id);
  const settings = { name, expires_at, allowed_addresses, created_at, created_by };
  const data = { public_id, tenant_id, application_id, digest: Uint8Array.from(digest), ...settings };
  await prisma.api_keys.create({ data });
};

/** Removes all keys of an application. The sessions that they created end with them. @returns how many keys there were. */
export const deleteApiKeysOf = async (
  { prisma, tenant_id, signing }: PrismaTransaction,
  application_id: string,
): Promise<number> => {
  await signing.revoke('tenants');
  return (await prisma.api_keys.deleteMany({ where: { tenant_id, application_id } })).count;
};

/** Removes one key; its application stays. @returns the id of the application; undefined for a key that the tenant does not have. */
export const deleteApiKey = async (
  { prisma, tenant_id, signing }: PrismaTransaction,
  public_id: string,
): Promise<string | undefined> => {
  await signing.revoke('tenants');
  const key = await prisma.api_keys.findUnique({ where: { public_id } });
  if (key?.tenant_id !== tenant_id) return undefined;
  const { count } = await prisma.api_keys.deleteMany({ where: { public_id, tenant_id } });
  return count === 0 ? undefined : key.application_id;
};

// Rows of the API keys of one application: listed, changed and deleted by its id and their public ids.

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
