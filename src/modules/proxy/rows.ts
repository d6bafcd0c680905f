// Rows of proxies and of the keyed digests that find them. Routes are sealed here.
import type { Database, TenantDatabase } from '../../platform/db/database.ts';
import { signedColumns } from '../../platform/db/signed-rows.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import { listNamed, type NamedFilter, type NamedRecords, searchNameOf } from '../access/rows/names.ts';

export type StoredProxy = {
  id: string;
  name: string;
  require_auth: boolean;
  /** Empty for no restriction. */
  allowed_hosts: string[] | null;
  /** Null in lists whose rows exceed what a request may read. */
  sealed: Uint8Array;
  /** The application may have been deleted. */
  application_id: string | null;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

/** The columns needed to use a proxy. */
export type UsableRow = Pick<StoredProxy, 'id' | 'require_auth' | 'allowed_hosts' | 'sealed' | 'application_id'> & {
  tenant_id: string;
  version: number;
  /** Settings of the tenant. */
  settings: Record<string, string>;
};

/** The columns that a request sets and that are not sealed. */
type ProxyColumns = Pick<StoredProxy, 'name' | 'require_auth' | 'application_id'> & { allowed_hosts: string[] };

export const PROXIES: NamedRecords = {
  from: 'proxies',
  columns: `id, name, require_auth, allowed_hosts, sealed, application_id, created_at, created_by, modified_at,
  modified_by`,
};

/** The join with tenants hides proxies of a deleted tenant that the sweep has not deleted yet. */
const FIND_BY_DIGEST = `
SELECT ${signedColumns('tenants', 't')}, ${signedColumns('proxies', 'r')}, a.id AS application_id
FROM proxies r LEFT JOIN applications a ON a.tenant_id = r.tenant_id AND a.id = r.application_id
JOIN proxy_keys k ON k.tenant_id = r.tenant_id AND k.proxy_id = r.id
JOIN tenants t ON t.id = r.tenant_id
WHERE k.digest = $1`;

const FIND_BY_ID = `
SELECT ${signedColumns('tenants', 't')}, ${signedColumns('proxies', 'r')}, a.id AS application_id
FROM proxies r LEFT JOIN applications a ON a.tenant_id = r.tenant_id AND a.id = r.application_id
JOIN tenants t ON t.id = r.tenant_id
WHERE r.tenant_id = $1::uuid AND r.id = $2::uuid`;

const LOCK = 'SELECT id FROM proxies WHERE tenant_id = $1::uuid AND id = $2::uuid FOR UPDATE';

const keyOf = ({ tenant_id }: { tenant_id: string }, id: string) => ({ tenant_id_id: { tenant_id, id } });

/** The proxy of a key, of any tenant. Hot: runs for each request that the cache cannot serve. */
export const findProxyBeforeCaller = async (
  { statements, signedRows }: Pick<Database, 'statements' | 'signedRows'>,
  digest: Uint8Array,
): Promise<UsableRow | undefined> => {
  const [found] = await signedRows.find(['tenants', 'proxies'], () =>
    statements.query('find-proxy-by-digest', FIND_BY_DIGEST, [digest]),
  );
  const settings = found?.tenants.settings as Record<string, string>;
  return found && { ...found.proxies, application_id: found.joined.application_id, settings };
};

/** Finds a proxy with the columns that a request uses. */
export const findUsableProxy = async (
  { query, tenant_id, signedRows }: Pick<TenantDatabase, 'query' | 'tenant_id' | 'signedRows'>,
  id: string,
): Promise<UsableRow | undefined> => {
  const [found] = await signedRows.find(['tenants', 'proxies'], () =>
    query('find-usable-proxy', FIND_BY_ID, [tenant_id, id]),
  );
  return found && { ...found.proxies, application_id: found.joined.application_id };
};

export const findProxy = async (db: TenantDatabase, id: string): Promise<StoredProxy | undefined> =>
  (await db.prisma((client) => client.proxies.findFirst({ where: { tenant_id: db.tenant_id, id } }))) ?? undefined;

/** All of the tenant. */
export const countProxyRows = ({ prisma, tenant_id }: PrismaTransaction): Promise<number> =>
  prisma.proxies.count({ where: { tenant_id } });

/** Newest first, then by id. */
export const listProxies = (db: TenantDatabase, filter: NamedFilter, offset: number, limit: number) =>
  listNamed<StoredProxy>(db, PROXIES, filter, offset, limit);

export const lockProxy = async (tx: PrismaTransaction, id: string): Promise<StoredProxy | undefined> => {
  if (!(await tx.signing.holds('tenants'))) return undefined;
  await tx.query('lock-proxy', LOCK, [tx.tenant_id, id]);
  // Read after the lock: a change that held the lock may have set another application.
  const row = await tx.prisma.proxies.findUnique({ where: keyOf(tx, id) });
  return row && (await tx.signing.isIntact('proxies', row)) ? row : undefined;
};

/** Adds a proxy with the digest of its key. */
export const insertProxy = async (
  tx: PrismaTransaction,
  row: ProxyColumns & Pick<StoredProxy, 'id' | 'created_at' | 'created_by'>,
  sealed: Uint8Array,
  digest: Uint8Array,
): Promise<void> => {
  const { tenant_id } = tx;
  await tx.signing.add('proxies', row.id);
  const data = { ...row, tenant_id, search_name: searchNameOf(row.name), sealed: Uint8Array.from(sealed) };
  await tx.prisma.proxies.create({ data });
  await tx.prisma.proxy_keys.create({ data: { digest: Uint8Array.from(digest), tenant_id, proxy_id: row.id } });
};

/** Keeps the digests of keys. */
export const updateProxy = async (
  tx: PrismaTransaction,
  id: string,
  row: Partial<ProxyColumns> & Pick<StoredProxy, 'modified_at' | 'modified_by'>,
  sealed: Uint8Array,
): Promise<void> => {
  await tx.signing.change('proxies', id);
  const named = row.name === undefined ? {} : { search_name: searchNameOf(row.name) };
  const changed = { ...row, ...named, sealed: Uint8Array.from(sealed) };
  await tx.prisma.proxies.update({ where: keyOf(tx, id), data: { ...changed, version: { increment: 1 } } });
};

/** Adds a digest of the proxy, and deletes those that are neither it nor `kept`. */
export const replaceProxyKey = async (
  { prisma, tenant_id }: PrismaTransaction,
  proxy_id: string,
  digest: Uint8Array,
  kept: Uint8Array | undefined,
): Promise<void> => {
  const others = kept ? { digest: { not: Uint8Array.from(kept) } } : {};
  await prisma.proxy_keys.deleteMany({ where: { tenant_id, proxy_id, ...others } });
  await prisma.proxy_keys.create({ data: { digest: Uint8Array.from(digest), tenant_id, proxy_id } });
};

/** Deletes a proxy and its keys. */
export const deleteProxyRow = async (tx: PrismaTransaction, id: string): Promise<void> => {
  const { tenant_id } = tx;
  await tx.signing.revoke('tenants');
  await tx.prisma.proxies.deleteMany({ where: { tenant_id, id } });
  await tx.prisma.proxy_keys.deleteMany({ where: { tenant_id, proxy_id: id } });
};
