// The tables of the database, each declared once. The lists that the parts need are derived from it.
// Tests compare it with the schema: a table or a column that is missing here fails.

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

/**
 * The columns of a token that decide who reads it, how long, which value equals it, and where it may go. Whether it has a mask is in
 * the sealed value. A changed column makes the value unreadable, see docs/decisions/0074-tokens-and-their-rows.md.
 */
export const TOKEN_COLUMNS = ['container', 'expires_at', 'fingerprint', 'fingerprint_expression', 'bound_to'] as const;

export type BoundColumn = (typeof TOKEN_COLUMNS)[number];

/** A column that is sealed under the data key of the tenant, and re-sealed after a rotation. */
export type SealedColumn = {
  /** Record in the binding of its values, see `Binding`. */
  record: string;
  /** Or the column that names it. */
  field: string | { column: 'kind' };
  /** Ids are UUIDs, or texts. */
  id: 'uuid' | 'text';
  /** Whether the column `type` is part of the place. */
  isTyped?: true;
  /** Columns to which values are bound, beside their place. */
  bound?: readonly BoundColumn[];
};

type Table = {
  /** `replaced`: a vault without tenants has rows that a restore replaces. `left`: why no backup has it. */
  backup: 'kept' | 'replaced' | { left: string };
  /** Spread over the workers of a Citus cluster. */
  isDistributed?: true;
  /** Rows of a deleted tenant are deleted in steps; `late`: in one, as only a request that was running has written any. */
  ofDeletedTenants?: 'swept' | 'late';
  /** What a row is named by within its tenant, where that is not `id`. */
  key?: readonly string[];
  /** `expires`: not re-sealed, because rows live for a day at most. `not`: why it is under no data key. */
  sealed?: SealedColumn | 'expires' | { not: string };
  /** Its rows authorise, and have a MAC. */
  signed?: SignedTable;
  /** Its rows authorise without a MAC: why a changed row gives an attacker nothing. */
  unsigned?: string;
  /** Its rows are verified in another way, and a changed one is an alarm. */
  isVerified?: true;
};

/** Columns that tell what happened, and authorise nothing. */
const HISTORY = {
  created_at: 'shown only',
  created_by: 'shown only',
  modified_at: 'shown only',
  modified_by: 'shown only',
};
const NAMES = { name: 'shown only', search_name: 'searched only' };

const signed = (
  versionOf: SignedTable['versionOf'],
  bound: readonly string[],
  unbound: SignedTable['unbound'],
  more: Partial<Pick<SignedTable, 'id' | 'idType' | 'digested'>> = {},
): SignedTable => ({ versionOf, id: 'id', idType: 'uuid', digested: [], bound, unbound, ...more });

/** In the order of a restore: what is referred to stands before what refers to it. */
export const TABLES = {
  instance: { backup: 'replaced' },
  tenants: {
    backup: 'kept',
    signed: signed(null, ['id', 'settings', 'auth_version'], {
      ...HISTORY,
      name: 'shown only',
      owner_id: 'shown only',
    }),
  },
  tenant_keys: { backup: 'kept', unsigned: 'a key is wrapped for its tenant and purpose' },
  deleted_tenants: { backup: 'kept' },
  erasures: { backup: 'kept' },
  erasure_certificates: { backup: 'kept', isVerified: true },
  applications: {
    backup: 'kept',
    ofDeletedTenants: 'swept',
    signed: signed(
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
        'echo_guard',
        'allowed_origins',
        'container',
        'creates_per_minute',
      ],
      { ...HISTORY, ...NAMES },
    ),
  },
  api_keys: {
    backup: 'kept',
    ofDeletedTenants: 'late',
    signed: signed(
      'tenants',
      ['public_id', 'tenant_id', 'application_id', 'digest', 'expires_at', 'allowed_addresses'],
      { ...HISTORY, name: 'shown only', last_used_at: 'shown only' },
      { id: 'public_id', idType: 'text' },
    ),
  },
  official_formulas: { backup: 'replaced', unsigned: 'each is compared with the formula of the release' },
  reactor_formulas: {
    backup: 'kept',
    ofDeletedTenants: 'swept',
    sealed: { record: 'reactor_formula', field: 'code', id: 'uuid' },
    signed: signed(
      'tenants',
      ['tenant_id', 'id', 'sealed', 'configuration', 'request_parameters', 'version'],
      { ...HISTORY, ...NAMES, description: 'shown only', icon: 'shown only' },
      { digested: ['sealed'] },
    ),
  },
  reactors: {
    backup: 'kept',
    ofDeletedTenants: 'swept',
    sealed: { record: 'reactor', field: 'configuration', id: 'uuid' },
    signed: signed(
      'tenants',
      ['tenant_id', 'id', 'formula_id', 'application_id', 'echo_guard', 'sealed', 'version'],
      { ...HISTORY, ...NAMES },
      { digested: ['sealed'] },
    ),
  },
  proxies: {
    backup: 'kept',
    ofDeletedTenants: 'swept',
    sealed: { record: 'proxy', field: 'route', id: 'uuid' },
    signed: signed(
      'tenants',
      ['tenant_id', 'id', 'application_id', 'require_auth', 'allowed_hosts', 'sealed', 'version'],
      { ...HISTORY, ...NAMES },
      { digested: ['sealed'] },
    ),
  },
  proxy_keys: {
    backup: 'kept',
    ofDeletedTenants: 'late',
    unsigned: 'the proxy has its key under its seal, and the two are compared',
  },
  webhooks: {
    backup: 'kept',
    ofDeletedTenants: 'swept',
    sealed: { record: 'webhook', field: 'destination', id: 'uuid' },
    signed: signed(
      'tenants',
      ['tenant_id', 'id', 'events', 'container', 'sealed'],
      {
        ...HISTORY,
        ...NAMES,
        status: 'sends nothing to another place; a writer of the database can stop deliveries in other ways too',
        failing_since: 'decides only when deliveries pause',
      },
      { digested: ['sealed'] },
    ),
  },
  code_versions: {
    backup: 'kept',
    ofDeletedTenants: 'swept',
    sealed: { record: 'code_version', field: 'code', id: 'uuid' },
    // Without the version of the tenant: each revocation would sign tens of thousands of rows again.
    signed: signed(
      null,
      ['tenant_id', 'id', 'resource_type', 'resource_id', 'number', 'note', 'created_at', 'created_by'],
      { sealed: 'bound to its row by its seal' },
    ),
  },
  code_drafts: {
    backup: 'kept',
    ofDeletedTenants: 'swept',
    sealed: { record: 'code_draft', field: 'code', id: 'uuid' },
    signed: signed(null, ['tenant_id', 'id', 'resource_type', 'resource_id', 'owner_id', 'modified_at'], {
      sealed: 'bound to its row by its seal',
    }),
  },
  users: {
    backup: 'kept',
    signed: signed(
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
  },
  passkeys: {
    backup: 'kept',
    sealed: { not: 'under a key that is derived from the pepper: users belong to no tenant' },
    unsigned: 'sealed under a key of the pepper, and bound to the devices of the signed user',
  },
  memberships: { backup: 'kept', ofDeletedTenants: 'late', unsigned: 'each is compared with its row of members' },
  members: {
    backup: 'kept',
    ofDeletedTenants: 'swept',
    sealed: { record: 'tenant_member', field: 'person', id: 'uuid' },
    signed: signed('tenants', ['tenant_id', 'id', 'user_id', 'role', 'address_digest'], {
      ...HISTORY,
      sealed: 'shown only, and bound to its row by its seal',
    }),
  },
  sso_providers: {
    backup: 'kept',
    ofDeletedTenants: 'swept',
    sealed: { record: 'sso_provider', field: 'settings', id: 'uuid' },
    signed: signed('tenants', ['tenant_id', 'id', 'sealed'], { modified_at: 'shown only' }, { digested: ['sealed'] }),
  },
  sso_domains: {
    backup: 'kept',
    ofDeletedTenants: 'late',
    signed: signed('tenants', ['domain', 'tenant_id'], { created_at: 'shown only' }, { id: 'domain', idType: 'text' }),
  },
  sso_identities: {
    backup: 'kept',
    ofDeletedTenants: 'late',
    signed: signed(
      'tenants',
      ['tenant_id', 'digest', 'member_id'],
      { created_at: 'shown only' },
      { id: 'digest', idType: 'bytea' },
    ),
  },
  invitations: {
    backup: 'kept',
    ofDeletedTenants: 'swept',
    sealed: { record: 'tenant_invitation', field: 'email', id: 'uuid' },
    signed: signed('tenants', ['tenant_id', 'id', 'role', 'address_digest', 'expires_at'], {
      ...HISTORY,
      sealed: 'bound to its row by its seal',
    }),
  },
  invitation_secrets: {
    backup: 'kept',
    ofDeletedTenants: 'late',
    signed: signed('tenants', ['digest', 'tenant_id', 'invitation_id'], {}, { id: 'digest', idType: 'bytea' }),
  },
  tokens: {
    backup: 'kept',
    isDistributed: true,
    ofDeletedTenants: 'swept',
    sealed: { record: 'token', field: 'sealed', id: 'text', isTyped: true, bound: TOKEN_COLUMNS },
    unsigned: 'sealed values are bound to their token',
    isVerified: true,
  },
  token_associations: { backup: 'kept', isDistributed: true },
  token_uses: { backup: 'kept', isDistributed: true, key: ['token_id', 'application_id'] },
  token_counts: { backup: 'kept', isDistributed: true, ofDeletedTenants: 'swept' },
  daily_budgets: { backup: 'kept' },
  daily_tokens: { backup: 'kept' },
  idempotency_keys: { backup: 'kept', isDistributed: true, ofDeletedTenants: 'swept', sealed: 'expires' },
  log_streams: { backup: 'replaced' },
  log_trees: { backup: 'kept' },
  log_leaves: { backup: 'kept' },
  log_checkpoints: { backup: 'kept' },
  log_archives: { backup: 'kept' },
  audit_log: { backup: 'kept', isDistributed: true, isVerified: true },
  begun_runs: { backup: 'kept', isDistributed: true, ofDeletedTenants: 'swept' },
  runs: { backup: 'kept', isDistributed: true, ofDeletedTenants: 'swept', isVerified: true },
  forwards: { backup: 'kept', isDistributed: true, ofDeletedTenants: 'swept', sealed: 'expires' },
  usage_hours: {
    backup: 'kept',
    isDistributed: true,
    ofDeletedTenants: 'swept',
    key: ['hour', 'kind', 'application_id'],
  },
  ephemeral_keys: { backup: { left: 'keys of security codes: they must cease to exist on time' } },
  token_cvcs: {
    backup: { left: 'security codes, which nothing opens without their keys' },
    isDistributed: true,
    ofDeletedTenants: 'swept',
    sealed: { not: 'under keys of half a minute' },
    isVerified: true,
  },
  request_rates: { backup: { left: 'lives for seconds' }, ofDeletedTenants: 'swept' },
  leases: { backup: { left: 'lives for seconds' } },
  attempts: { backup: { left: 'failed sign-ins count for a day at most' } },
  sessions: {
    backup: { left: 'people sign in again: a session that has ended since must not come back' },
    ofDeletedTenants: 'late',
    signed: signed(
      'users',
      ['digest', 'tenant_id', 'member_id', 'user_id', 'created_at', 'expires_at', 'second_factor_at'],
      { seen_at: 'written each minute; the session ends at expires_at, which is bound' },
      { id: 'digest', idType: 'bytea' },
    ),
  },
  sso_sessions: {
    backup: { left: 'ends with its session' },
    ofDeletedTenants: 'late',
    sealed: 'expires',
    signed: signed(
      'tenants',
      ['digest', 'tenant_id', 'sealed'],
      { expires_at: 'for the sweep alone: the session ends at its own expires_at, which is bound' },
      { id: 'digest', idType: 'bytea', digested: ['sealed'] },
    ),
  },
  sso_flows: {
    backup: { left: 'lives for minutes: a sign-in that ended since must not end again' },
    unsigned: 'has a MAC of its own',
  },
  password_resets: {
    backup: { left: 'lives for minutes: a link that was used since must not work again' },
    signed: signed('users', ['digest', 'user_id', 'expires_at'], {}, { id: 'digest', idType: 'bytea' }),
  },
  collect_sessions: {
    backup: { left: 'lives for minutes: a session that was used up since must not come back' },
    ofDeletedTenants: 'swept',
    signed: signed(
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
        'bound_to',
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
  },
  mail_outbox: {
    backup: { left: 'lives for minutes: a mail that was sent since must not be sent again' },
    sealed: { record: 'mail', field: { column: 'kind' }, id: 'uuid' },
    isVerified: true,
  },
  webhook_deliveries: {
    backup: { left: 'an event that was delivered since must not be delivered again' },
    ofDeletedTenants: 'swept',
    sealed: { record: 'webhook_delivery', field: 'body', id: 'uuid' },
    isVerified: true,
  },
  _prisma_migrations: { backup: { left: 'the manifest names the migrations, and the restore applies them' } },
} as const satisfies Record<string, Table>;

export type TableName = keyof typeof TABLES;

const tables = Object.entries(TABLES) as [TableName, Table][];

const namesOf = (isOne: (table: Table) => boolean): TableName[] =>
  tables.filter(([, table]) => isOne(table)).map(([name]) => name);

/** What a part of the declaration says of each table that has it. */
const factsOf = <Fact>(fact: (table: Table) => Fact | undefined): Readonly<Record<string, Fact>> =>
  Object.fromEntries(
    tables.flatMap(([name, table]) => {
      const found = fact(table);
      return found === undefined ? [] : [[name, found]];
    }),
  );

/** In the order of a restore. */
export const KEPT_TABLES: readonly TableName[] = namesOf(({ backup }) => typeof backup === 'string');
export const REPLACED_TABLES: readonly string[] = namesOf(({ backup }) => backup === 'replaced');

/** `tokens` comes first: its shards decide where those of the others are. */
export const DISTRIBUTED_TABLES: readonly TableName[] = namesOf(({ isDistributed = false }) => isDistributed);

/** Tokens come first, then what refers to others before these. */
export const TABLES_OF_TENANTS: readonly TableName[] = [
  'tokens',
  ...namesOf(({ ofDeletedTenants }) => ofDeletedTenants === 'swept')
    .filter((name) => name !== 'tokens')
    .toReversed(),
];
export const LATE_TABLES: readonly TableName[] = namesOf(({ ofDeletedTenants }) => ofDeletedTenants === 'late');
export const KEYS = factsOf(({ key }) => key);

export type SealedTable = SealedColumn & { name: TableName };

const sealedColumnOf = ({ sealed }: Table): SealedColumn | undefined =>
  typeof sealed === 'object' && 'record' in sealed ? sealed : undefined;

/** Re-sealed after a rotation. */
export const SEALED_TABLES: readonly SealedTable[] = tables.flatMap(([name, table]) => {
  const column = sealedColumnOf(table);
  return column ? [{ name, ...column }] : [];
});
/** Sealed values that are not re-sealed, because they expire within a day. An old key is kept until they have. */
export const EXPIRING_TABLES: readonly TableName[] = namesOf((table) => table.sealed === 'expires');
/** With the reason: not under a data key. */
export const OTHER_SEALED_TABLES = factsOf(({ sealed }) =>
  typeof sealed === 'object' && 'not' in sealed ? sealed.not : undefined,
);

type NamesWith<Part extends keyof Table> = {
  [Name in TableName]: (typeof TABLES)[Name] extends Record<Part, unknown> ? Name : never;
}[TableName];

export type SignedTableName = NamesWith<'signed'>;

export const SIGNED_TABLES = factsOf((table) => table.signed) as Readonly<Record<SignedTableName, SignedTable>>;
/** Tables that authorise without a MAC, with the reason. */
export const CHECKED_OTHERWISE = factsOf(({ unsigned }) => unsigned);

export type VerifiedTableName = SignedTableName | NamesWith<'isVerified'>;

/** Tables whose rows are verified. They are counted from 0, so that an alert sees the first. */
export const VERIFIED_TABLES = namesOf(
  (table) => table.isVerified === true || table.signed !== undefined,
) as VerifiedTableName[];
