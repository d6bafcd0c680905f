// Rows of single sign-on: providers of tenants, domains, accounts of members, sign-ins under way, and states of sessions.
import type { Database, TenantDatabase } from '../../../platform/db/database.ts';
import { signedColumns } from '../../../platform/db/signed-rows.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';

type BeforeCaller = Pick<Database, 'statements'>;
type Verifying = Pick<Database, 'signedRows' | 'statements'>;

const FIND_PROVIDER = `
SELECT ${signedColumns('tenants', 't')}, ${signedColumns('sso_providers', 'p')}
FROM sso_providers p JOIN tenants t ON t.id = p.tenant_id WHERE p.tenant_id = $1::uuid AND p.id = $1::uuid`;
const LOCK_PROVIDER = `
SELECT tenant_id, id, sealed, mac FROM sso_providers WHERE tenant_id = $1::uuid AND id = $1::uuid FOR UPDATE`;
const PUT_PROVIDER = `
INSERT INTO sso_providers (tenant_id, id, sealed, modified_at) VALUES ($1::uuid, $1::uuid, $2, $3)
ON CONFLICT (tenant_id, id) DO UPDATE SET sealed = $2, modified_at = $3`;
const DELETE_PROVIDER = 'DELETE FROM sso_providers WHERE tenant_id = $1::uuid RETURNING id';

const ofProvider = ['tenants', 'sso_providers'] as const;

/** The sealed settings of a tenant's provider. */
export const findProvider = async ({
  query,
  signedRows,
  tenant_id,
}: Pick<TenantDatabase, 'query' | 'signedRows' | 'tenant_id'>): Promise<Buffer | undefined> => {
  const [found] = await signedRows.find(ofProvider, () => query('find-sso-provider', FIND_PROVIDER, [tenant_id]));
  return found?.sso_providers.sealed;
};

/** @returns undefined too for settings that do not verify. */
export const lockProvider = async ({ query, signing, tenant_id }: PrismaTransaction): Promise<Buffer | undefined> => {
  const [row] = await query('lock-sso-provider', LOCK_PROVIDER, [tenant_id]);
  return row && (await signing.isIntact('sso_providers', row)) ? row.sealed : undefined;
};

/** In place of settings that do not verify, too. */
export const putProvider = async (
  { query, signing, tenant_id }: PrismaTransaction,
  { sealed, modified_at }: { sealed: Uint8Array; modified_at: Date },
): Promise<void> => {
  await signing.revoke('tenants');
  await signing.add('sso_providers', tenant_id);
  await query('put-sso-provider', PUT_PROVIDER, [tenant_id, sealed, modified_at]);
};

/** @returns whether there was one. */
export const deleteProvider = async ({ query, signing, tenant_id }: PrismaTransaction): Promise<boolean> => {
  await signing.revoke('tenants');
  return (await query('delete-sso-provider', DELETE_PROVIDER, [tenant_id])).length > 0;
};

/** `isGenuine`: false for a row that a writer of the database has made or put back, which does not count. */
export type StoredDomain = { domain: string; tenant_id: string; isGenuine: boolean };

const DOMAIN = `
SELECT d.domain, d.tenant_id, ${signedColumns('tenants', 't')}, ${signedColumns('sso_domains', 'd')}
FROM sso_domains d LEFT JOIN tenants t ON t.id = d.tenant_id`;
/** More than the command line prints. */
const DOMAINS_LISTED_MAX = 10_000;
const INSERT_DOMAIN = `
INSERT INTO sso_domains (domain, tenant_id, created_at) VALUES ($1, $2::uuid, $3)
ON CONFLICT DO NOTHING RETURNING domain`;
const DELETE_DOMAIN = 'DELETE FROM sso_domains WHERE domain = $1 AND tenant_id = $2::uuid RETURNING domain';

const ofDomain = ['tenants', 'sso_domains'] as const;

const verifyDomains = async (
  { signedRows }: Pick<Database, 'signedRows'>,
  query: () => Promise<StoredDomain[]>,
): Promise<StoredDomain[]> => {
  let rows: StoredDomain[] = [];
  const genuine = await signedRows.find(ofDomain, async () => (rows = await query()));
  const names = new Set(genuine.map(({ joined }) => joined.domain));
  return rows.map(({ domain, tenant_id }) => ({ domain, tenant_id, isGenuine: names.has(domain) }));
};

export const findDomainBeforeCaller = async (db: Verifying, domain: string): Promise<StoredDomain | undefined> => {
  const find = () => db.statements.query('find-sso-domain', `${DOMAIN} WHERE d.domain = $1`, [domain]);
  return (await verifyDomains(db, find))[0];
};

export const listDomainsOfTenant = async (db: TenantDatabase): Promise<StoredDomain[]> => {
  const text = `${DOMAIN} WHERE d.tenant_id = $1::uuid ORDER BY d.domain LIMIT ${DOMAINS_LISTED_MAX}`;
  return verifyDomains(db, () => db.query('list-sso-domains', text, [db.tenant_id]));
};

/** For the operator: of all tenants. */
export const listAllDomains = async (db: Verifying): Promise<StoredDomain[]> =>
  verifyDomains(db, () =>
    db.statements.query(undefined, `${DOMAIN} ORDER BY d.domain LIMIT ${DOMAINS_LISTED_MAX}`, []),
  );

/** @returns whether the domain was free. */
export const insertDomain = async (
  { query, signing, tenant_id }: PrismaTransaction,
  { domain, created_at }: { domain: string; created_at: Date },
): Promise<boolean> => {
  if ((await query('insert-sso-domain', INSERT_DOMAIN, [domain, tenant_id, created_at])).length === 0) return false;
  await signing.add('sso_domains', domain);
  return true;
};

/** @returns whether it was bound to this tenant. */
export const deleteDomain = async (
  { query, signing, tenant_id }: PrismaTransaction,
  domain: string,
): Promise<boolean> => {
  // Without the tenant, no domain of it verifies.
  if (await signing.holds('tenants')) await signing.revoke('tenants');
  return (await query('delete-sso-domain', DELETE_DOMAIN, [domain, tenant_id])).length > 0;
};

/** `isGenuine`: false for a row that a writer of the database has made or put back. */
type StoredIdentity = { member_id: string; user_id: string; isGenuine: boolean };

const FIND_IDENTITY = `
SELECT i.tenant_id, i.digest, i.member_id, m.user_id, i.mac FROM sso_identities i
JOIN members m ON m.tenant_id = i.tenant_id AND m.id = i.member_id
WHERE i.tenant_id = $1::uuid AND i.digest = $2`;
const FIND_MEMBER = `
SELECT m.id AS member_id, m.user_id, i.digest IS NOT NULL AS is_bound FROM members m
LEFT JOIN sso_identities i ON i.tenant_id = m.tenant_id AND i.member_id = m.id
WHERE m.tenant_id = $1::uuid AND m.address_digest = $2`;
/** A row that is left of a member who was removed gives way. */
const PUT_IDENTITY = `
INSERT INTO sso_identities (tenant_id, digest, member_id, created_at) VALUES ($1::uuid, $2, $3::uuid, $4)
ON CONFLICT (tenant_id, digest) DO UPDATE SET member_id = $3::uuid, created_at = $4`;

/** The member whose account at the provider this is. */
export const findIdentity = async (
  { query, signing, tenant_id }: PrismaTransaction,
  digest: Uint8Array,
): Promise<StoredIdentity | undefined> => {
  const [row] = await query('find-sso-identity', FIND_IDENTITY, [tenant_id, digest]);
  if (!row) return undefined;
  const { member_id, user_id } = row;
  return { member_id, user_id, isGenuine: await signing.isIntact('sso_identities', row) };
};

/** The member with an address, and whether an account at the provider is theirs. */
export const findMemberOfAddress = async (
  { query, tenant_id }: PrismaTransaction,
  address_digest: Uint8Array,
): Promise<{ member_id: string; user_id: string; is_bound: boolean } | undefined> =>
  (await query('find-member-of-address', FIND_MEMBER, [tenant_id, address_digest]))[0];

export const putIdentity = async (
  { query, signing, tenant_id }: PrismaTransaction,
  { digest, member_id, created_at }: { digest: Uint8Array; member_id: string; created_at: Date },
): Promise<void> => {
  await signing.add('sso_identities', digest);
  await query('put-sso-identity', PUT_IDENTITY, [tenant_id, digest, member_id, created_at]);
};

/** Forgets whose accounts they were, such as when a tenant has another provider. */
export const deleteIdentities = async ({ query, signing, tenant_id }: PrismaTransaction): Promise<void> => {
  await signing.revoke('tenants');
  await query('delete-sso-identities', 'DELETE FROM sso_identities WHERE tenant_id = $1::uuid', [tenant_id]);
};

export type StoredFlow = {
  digest: Uint8Array;
  tenant_id: string;
  mac: Uint8Array;
  next: string;
  session: Uint8Array | null;
  created_at: Date;
  expires_at: Date;
};

const INSERT_FLOW = `
INSERT INTO sso_flows (digest, tenant_id, mac, next, session, created_at, expires_at)
VALUES ($1, $2::uuid, $3, $4, $5, $6, $7)`;
const FIND_FLOW = `
SELECT digest, tenant_id, mac, next, session, created_at, expires_at FROM sso_flows WHERE digest = $1`;
const TAKE_FLOW = 'DELETE FROM sso_flows WHERE digest = $1 RETURNING digest';

export const insertFlow = async ({ statements }: BeforeCaller, row: StoredFlow): Promise<void> => {
  const { digest, tenant_id, mac, next, session, created_at, expires_at } = row;
  const values = [digest, tenant_id, mac, next, session, created_at, expires_at];
  await statements.query('insert-sso-flow', INSERT_FLOW, values);
};

export const findFlowBeforeCaller = async (
  { statements }: BeforeCaller,
  digest: Uint8Array,
): Promise<StoredFlow | undefined> =>
  ((await statements.query('find-sso-flow', FIND_FLOW, [digest])) as StoredFlow[])[0];

/** Takes a flow: one of several concurrent requests with one state gets it. */
export const takeFlow = async ({ statements }: BeforeCaller, digest: Uint8Array): Promise<boolean> =>
  (await statements.query('take-sso-flow', TAKE_FLOW, [digest])).length > 0;

const FIND_STATE = `
SELECT ${signedColumns('tenants', 't')}, ${signedColumns('sso_sessions', 's')}
FROM sso_sessions s JOIN tenants t ON t.id = s.tenant_id WHERE s.digest = $1 AND s.tenant_id = $2::uuid`;
const LOCK_STATE = `
SELECT digest, tenant_id, sealed, mac FROM sso_sessions WHERE digest = $1 AND tenant_id = $2::uuid FOR UPDATE`;
const INSERT_STATE = `
INSERT INTO sso_sessions (digest, tenant_id, sealed, expires_at) VALUES ($1, $2::uuid, $3, $4)`;
const REPLACE_STATE = `
UPDATE sso_sessions SET sealed = $3 WHERE digest = $1 AND tenant_id = $2::uuid`;

const ofState = ['tenants', 'sso_sessions'] as const;

export const findSessionState = async (
  { query, signedRows, tenant_id }: Pick<TenantDatabase, 'query' | 'signedRows' | 'tenant_id'>,
  digest: Uint8Array,
): Promise<Buffer | undefined> => {
  const [found] = await signedRows.find(ofState, () => query('find-sso-session', FIND_STATE, [digest, tenant_id]));
  return found?.sso_sessions.sealed;
};

/** The transaction must hold the tenant. */
export const insertSessionState = async (
  { query, signing, tenant_id }: PrismaTransaction,
  { digest, sealed, expires_at }: { digest: Uint8Array; sealed: Uint8Array; expires_at: Date },
): Promise<void> => {
  await signing.add('sso_sessions', digest);
  await query('insert-sso-session', INSERT_STATE, [digest, tenant_id, sealed, expires_at]);
};

/**
 * Replaces the state of a session that is proven again. What it was still verifies, and allows less: so not all rows of the
 * tenant are signed again.
 * @returns whether the session is still there.
 */
export const replaceSessionState = async (
  { query, signing, tenant_id }: PrismaTransaction,
  digest: Uint8Array,
  sealed: Uint8Array,
): Promise<boolean> => {
  if (!(await signing.holds('tenants'))) return false;
  const [row] = await query('lock-sso-session', LOCK_STATE, [digest, tenant_id]);
  if (!row || !(await signing.isIntact('sso_sessions', row))) return false;
  await signing.add('sso_sessions', digest);
  await query('replace-sso-session', REPLACE_STATE, [digest, tenant_id, sealed]);
  return true;
};

export const deleteSessionState = async (
  { query, tenant_id }: PrismaTransaction,
  digest: Uint8Array,
): Promise<void> => {
  await query('delete-sso-session', 'DELETE FROM sso_sessions WHERE digest = $1 AND tenant_id = $2::uuid', [
    digest,
    tenant_id,
  ]);
};

/** Ends the sessions of a tenant that began by single sign-on. */
export const deleteSessionStates = async ({ query, signing, tenant_id }: PrismaTransaction): Promise<void> => {
  await signing.revoke('tenants');
  await query('delete-sso-sessions', 'DELETE FROM sso_sessions WHERE tenant_id = $1::uuid', [tenant_id]);
};
