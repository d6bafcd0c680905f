// Rows of single sign-on: providers of tenants, domains, accounts of members, sign-ins under way, and states of sessions.
import type { Database, TenantDatabase } from '../../../platform/db/database.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';

type BeforeCaller = Pick<Database, 'statements'>;

const FIND_PROVIDER = 'SELECT sealed FROM sso_providers WHERE tenant_id = $1::uuid AND id = $1::uuid';
const LOCK_PROVIDER = `${FIND_PROVIDER} FOR UPDATE`;
const PUT_PROVIDER = `
INSERT INTO sso_providers (tenant_id, id, sealed, modified_at) VALUES ($1::uuid, $1::uuid, $2, $3)
ON CONFLICT (tenant_id, id) DO UPDATE SET sealed = $2, modified_at = $3`;
const DELETE_PROVIDER = 'DELETE FROM sso_providers WHERE tenant_id = $1::uuid RETURNING id';

/** The sealed settings of a tenant's provider. */
export const findProvider = async ({ query, tenant_id }: TenantDatabase): Promise<Buffer | undefined> =>
  ((await query('find-sso-provider', FIND_PROVIDER, [tenant_id])) as { sealed: Buffer }[])[0]?.sealed;

export const lockProvider = async ({ query, tenant_id }: PrismaTransaction): Promise<Buffer | undefined> =>
  ((await query('lock-sso-provider', LOCK_PROVIDER, [tenant_id])) as { sealed: Buffer }[])[0]?.sealed;

export const putProvider = async (
  { query, tenant_id }: PrismaTransaction,
  { sealed, modified_at }: { sealed: Uint8Array; modified_at: Date },
): Promise<void> => {
  await query('put-sso-provider', PUT_PROVIDER, [tenant_id, sealed, modified_at]);
};

/** @returns whether there was one. */
export const deleteProvider = async ({ query, tenant_id }: PrismaTransaction): Promise<boolean> =>
  (await query('delete-sso-provider', DELETE_PROVIDER, [tenant_id])).length > 0;

export type StoredDomain = { domain: string; tenant_id: string; mac: Buffer; created_at: Date };

const DOMAIN = 'SELECT domain, tenant_id, mac, created_at FROM sso_domains';
/** More than the command line prints. */
const DOMAINS_LISTED_MAX = 10_000;
const INSERT_DOMAIN = `
INSERT INTO sso_domains (domain, tenant_id, mac, created_at) VALUES ($1, $2::uuid, $3, $4)
ON CONFLICT DO NOTHING RETURNING domain`;
const DELETE_DOMAIN = 'DELETE FROM sso_domains WHERE domain = $1 AND tenant_id = $2::uuid RETURNING domain';

export const findDomainBeforeCaller = async (
  { statements }: BeforeCaller,
  domain: string,
): Promise<StoredDomain | undefined> =>
  ((await statements.query('find-sso-domain', `${DOMAIN} WHERE domain = $1`, [domain])) as StoredDomain[])[0];

export const listDomainsOfTenant = async ({ query, tenant_id }: TenantDatabase): Promise<StoredDomain[]> =>
  query('list-sso-domains', `${DOMAIN} WHERE tenant_id = $1::uuid ORDER BY domain LIMIT ${DOMAINS_LISTED_MAX}`, [
    tenant_id,
  ]);

/** For the operator: of all tenants. */
export const listAllDomains = async ({ statements }: BeforeCaller): Promise<StoredDomain[]> =>
  statements.query(undefined, `${DOMAIN} ORDER BY domain LIMIT ${DOMAINS_LISTED_MAX}`, []);

/** @returns whether the domain was free. */
export const insertDomain = async (
  { query, tenant_id }: PrismaTransaction,
  { domain, mac, created_at }: Omit<StoredDomain, 'tenant_id'>,
): Promise<boolean> =>
  (await query('insert-sso-domain', INSERT_DOMAIN, [domain, tenant_id, mac, created_at])).length > 0;

/** @returns whether it was bound to this tenant. */
export const deleteDomain = async ({ query, tenant_id }: PrismaTransaction, domain: string): Promise<boolean> =>
  (await query('delete-sso-domain', DELETE_DOMAIN, [domain, tenant_id])).length > 0;

export type StoredIdentity = { member_id: string; user_id: string; mac: Buffer };

const FIND_IDENTITY = `
SELECT i.member_id, m.user_id, i.mac FROM sso_identities i
JOIN members m ON m.tenant_id = i.tenant_id AND m.id = i.member_id
WHERE i.tenant_id = $1::uuid AND i.digest = $2`;
const FIND_MEMBER = `
SELECT m.id AS member_id, m.user_id, i.digest IS NOT NULL AS is_bound FROM members m
LEFT JOIN sso_identities i ON i.tenant_id = m.tenant_id AND i.member_id = m.id
WHERE m.tenant_id = $1::uuid AND m.address_digest = $2`;
/** A row that is left of a member who was removed gives way. */
const PUT_IDENTITY = `
INSERT INTO sso_identities (tenant_id, digest, member_id, mac, created_at) VALUES ($1::uuid, $2, $3::uuid, $4, $5)
ON CONFLICT (tenant_id, digest) DO UPDATE SET member_id = $3::uuid, mac = $4, created_at = $5`;

/** The member whose account at the provider this is. */
export const findIdentity = async (
  { query, tenant_id }: PrismaTransaction,
  digest: Uint8Array,
): Promise<StoredIdentity | undefined> =>
  ((await query('find-sso-identity', FIND_IDENTITY, [tenant_id, digest])) as StoredIdentity[])[0];

/** The member with an address, and whether an account at the provider is theirs. */
export const findMemberOfAddress = async (
  { query, tenant_id }: PrismaTransaction,
  address_digest: Uint8Array,
): Promise<{ member_id: string; user_id: string; is_bound: boolean } | undefined> =>
  (await query('find-member-of-address', FIND_MEMBER, [tenant_id, address_digest]))[0];

export const putIdentity = async (
  { query, tenant_id }: PrismaTransaction,
  { digest, member_id, mac, created_at }: { digest: Uint8Array; member_id: string; mac: Uint8Array; created_at: Date },
): Promise<void> => {
  await query('put-sso-identity', PUT_IDENTITY, [tenant_id, digest, member_id, mac, created_at]);
};

/** Forgets whose accounts they were, such as when a tenant has another provider. */
export const deleteIdentities = async ({ query, tenant_id }: PrismaTransaction): Promise<void> => {
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

/** Of concurrent requests with one state, one gets it. */
export const takeFlow = async ({ statements }: BeforeCaller, digest: Uint8Array): Promise<boolean> =>
  (await statements.query('take-sso-flow', TAKE_FLOW, [digest])).length > 0;

const FIND_STATE = 'SELECT sealed FROM sso_sessions WHERE digest = $1 AND tenant_id = $2::uuid';
const INSERT_STATE = `
INSERT INTO sso_sessions (digest, tenant_id, sealed, expires_at) VALUES ($1, $2::uuid, $3, $4)`;
const REPLACE_STATE = `
UPDATE sso_sessions SET sealed = $3 WHERE digest = $1 AND tenant_id = $2::uuid RETURNING digest`;

export const findSessionState = async (
  { query, tenant_id }: TenantDatabase,
  digest: Uint8Array,
): Promise<Buffer | undefined> =>
  ((await query('find-sso-session', FIND_STATE, [digest, tenant_id])) as { sealed: Buffer }[])[0]?.sealed;

export const insertSessionState = async (
  { query, tenant_id }: PrismaTransaction,
  { digest, sealed, expires_at }: { digest: Uint8Array; sealed: Uint8Array; expires_at: Date },
): Promise<void> => {
  await query('insert-sso-session', INSERT_STATE, [digest, tenant_id, sealed, expires_at]);
};

/** @returns whether the session is still there. */
export const replaceSessionState = async (
  { query, tenant_id }: PrismaTransaction,
  digest: Uint8Array,
  sealed: Uint8Array,
): Promise<boolean> => (await query('replace-sso-session', REPLACE_STATE, [digest, tenant_id, sealed])).length > 0;

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
export const deleteSessionStates = async ({ query, tenant_id }: PrismaTransaction): Promise<void> => {
  await query('delete-sso-sessions', 'DELETE FROM sso_sessions WHERE tenant_id = $1::uuid', [tenant_id]);
};
