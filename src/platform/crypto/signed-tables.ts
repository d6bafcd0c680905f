// Which tables have rows that authorise, and which of their columns a MAC binds. A test compares the lists with the schema.

export type SignedTable = {
  /**
   * The table whose row has the version that rows of this one are bound to, and signed again with when it is raised. Null for a table
   * that has the version itself, and for one whose rows are found with a signed row that they end with.
   */
  versionOf: 'tenants' | 'users' | null;
  /** What a row is named by within its tenant or user. */
  id: string;
  idType: 'uuid' | 'text' | 'bytea';
  bound: readonly string[];
  /** Columns that are bound by their SHA-256, since they are large. */
  digested: readonly string[];
  /** With the reason. */
  unbound: Readonly<Record<string, string>>;
};

/** Columns that tell what happened, and authorise nothing. */
const HISTORY = {
  created_at: 'shown only',
  created_by: 'shown only',
  modified_at: 'shown only',
  modified_by: 'shown only',
};
const NAMES = { name: 'shown only', search_name: 'searched only' };

const table = (
  versionOf: SignedTable['versionOf'],
  bound: readonly string[],
  unbound: SignedTable['unbound'],
  more: Partial<Pick<SignedTable, 'id' | 'idType' | 'digested'>> = {},
): SignedTable => ({ versionOf, id: 'id', idType: 'uuid', digested: [], bound, unbound, ...more });

export const SIGNED_TABLES = {
  tenants: table(null, ['id', 'settings', 'auth_version'], { ...HISTORY, name: 'shown only', owner_id: 'shown only' }),
  users: table(
    null,
    [
      'id',
      'address_digest',
      'password_hash',
      'second_factor',
      'second_factor_since',
      'second_factor_step',
      'recovery_digests',
      'auth_version',
    ],
    { created_at: 'shown only' },
  ),
  applications: table(
    'tenants',
    [
      'tenant_id',
      'id',
      'type',
      'permissions',
      'rules',
      'allowed_hosts',
      'rate_limit',
      'daily_reveals',
      'daily_uses',
      'allowed_origins',
      'container',
      'creates_per_minute',
    ],
    { ...HISTORY, ...NAMES },
  ),
  api_keys: table(
    'tenants',
    ['public_id', 'tenant_id', 'application_id', 'digest', 'expires_at', 'allowed_addresses'],
    { ...HISTORY, name: 'shown only', last_used_at: 'shown only' },
    { id: 'public_id', idType: 'text' },
  ),
  reactor_formulas: table(
    'tenants',
    ['tenant_id', 'id', 'sealed', 'configuration', 'request_parameters', 'version'],
    { ...HISTORY, ...NAMES, description: 'shown only', icon: 'shown only' },
    { digested: ['sealed'] },
  ),
  reactors: table(
    'tenants',
    ['tenant_id', 'id', 'formula_id', 'application_id', 'sealed', 'version'],
    { ...HISTORY, ...NAMES },
    { digested: ['sealed'] },
  ),
  proxies: table(
    'tenants',
    ['tenant_id', 'id', 'application_id', 'require_auth', 'allowed_hosts', 'sealed', 'version'],
    { ...HISTORY, ...NAMES },
    { digested: ['sealed'] },
  ),
  // Without the version of the tenant: each revocation would sign tens of thousands of rows again.
  code_versions: table(
    null,
    ['tenant_id', 'id', 'resource_type', 'resource_id', 'number', 'note', 'created_at', 'created_by'],
    { sealed: 'bound to its row by its seal' },
  ),
  code_drafts: table(null, ['tenant_id', 'id', 'resource_type', 'resource_id', 'owner_id', 'modified_at'], {
    sealed: 'bound to its row by its seal',
  }),
  members: table('tenants', ['tenant_id', 'id', 'user_id', 'role', 'address_digest'], {
    ...HISTORY,
    sealed: 'shown only, and bound to its row by its seal',
  }),
  invitations: table('tenants', ['tenant_id', 'id', 'role', 'address_digest', 'expires_at'], {
    ...HISTORY,
    sealed: 'bound to its row by its seal',
  }),
  invitation_secrets: table('tenants', ['digest', 'tenant_id', 'invitation_id'], {}, { id: 'digest', idType: 'bytea' }),
  sessions: table(
    'users',
    ['digest', 'tenant_id', 'member_id', 'user_id', 'created_at', 'expires_at', 'second_factor_at'],
    { seen_at: 'written each minute; the session ends at expires_at, which is bound' },
    { id: 'digest', idType: 'bytea' },
  ),
  sso_providers: table(
    'tenants',
    ['tenant_id', 'id', 'sealed'],
    { modified_at: 'shown only' },
    { digested: ['sealed'] },
  ),
  sso_domains: table(
    'tenants',
    ['domain', 'tenant_id'],
    { created_at: 'shown only' },
    { id: 'domain', idType: 'text' },
  ),
  sso_identities: table(
    'tenants',
    ['tenant_id', 'digest', 'member_id'],
    { created_at: 'shown only' },
    { id: 'digest', idType: 'bytea' },
  ),
  sso_sessions: table(
    'tenants',
    ['digest', 'tenant_id', 'sealed'],
    { expires_at: 'for the sweep alone: the session ends at its own expires_at, which is bound' },
    { id: 'digest', idType: 'bytea', digested: ['sealed'] },
  ),
  password_resets: table('users', ['digest', 'user_id', 'expires_at'], {}, { id: 'digest', idType: 'bytea' }),
  collect_sessions: table(
    null,
    [
      'tenant_id',
      'id',
      'public_id',
      'digest',
      'allowed_origins',
      'types',
      'container',
      'metadata',
      'max_tokens',
      'return_url',
      'page_digest',
      'expires_at',
      'created_by',
      'key_id',
      'token_id',
    ],
    {
      created_at: 'shown only',
      token_ids: 'written with each token; the session ends at expires_at, which is bound',
      tries: 'written with each request; likewise',
    },
  ),
} as const satisfies Record<string, SignedTable>;

export type SignedTableName = keyof typeof SIGNED_TABLES;

/** Tables that authorise without a MAC, and why a changed row gives an attacker nothing. */
export const CHECKED_OTHERWISE: Readonly<Record<string, string>> = {
  memberships: 'each is compared with its row of members',
  proxy_keys: 'the proxy has its key under its seal, and the two are compared',
  official_formulas: 'each is compared with the formula of the release',
  tenant_keys: 'a key is wrapped for its tenant and purpose',
  tokens: 'sealed values are bound to their token',
  passkeys: 'sealed under a key of the pepper, and bound to the devices of the signed user',
  sso_flows: 'has a MAC of its own',
};
