// Which tables a backup has. Each table of the schema is in one of the two lists: a test compares them with the database.

/** In the order of a restore: tokens before the links that refer to them. */
export const KEPT_TABLES = [
  'instance',
  'tenants',
  'tenant_keys',
  'deleted_tenants',
  'erasures',
  'erasure_certificates',
  'applications',
  'api_keys',
  'official_formulas',
  'reactor_formulas',
  'reactors',
  'proxies',
  'proxy_keys',
  'code_versions',
  'code_drafts',
  'users',
  'passkeys',
  'memberships',
  'members',
  'sso_providers',
  'sso_domains',
  'sso_identities',
  'invitations',
  'invitation_secrets',
  'tokens',
  'token_associations',
  'token_counts',
  'daily_budgets',
  'daily_tokens',
  'idempotency_keys',
  'log_streams',
  'log_trees',
  'log_leaves',
  'log_checkpoints',
  'log_archives',
  'audit_log',
  'begun_runs',
  'runs',
  'usage_hours',
] as const;

/** With the reason. */
export const LEFT_TABLES: Readonly<Record<string, string>> = {
  ephemeral_keys: 'keys of security codes: they must cease to exist on time',
  token_cvcs: 'security codes, which nothing opens without their keys',
  request_rates: 'lives for seconds',
  leases: 'lives for seconds',
  attempts: 'failed sign-ins count for a day at most',
  sessions: 'people sign in again: a session that has ended since must not come back',
  sso_sessions: 'ends with its session',
  sso_flows: 'lives for minutes: a sign-in that ended since must not end again',
  password_resets: 'lives for minutes: a link that was used since must not work again',
  collect_sessions: 'lives for minutes: a session that was used up since must not come back',
  mail_outbox: 'lives for minutes: a mail that was sent since must not be sent again',
  _prisma_migrations: 'the manifest names the migrations, and the restore applies them',
};

/** What a vault without tenants may have: a restore replaces it. */
export const REPLACED_TABLES: readonly string[] = ['instance', 'official_formulas', 'log_streams'];
