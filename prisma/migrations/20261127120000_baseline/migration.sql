-- The tables of a vault. Releases from 0.2.0 on begin with this schema, and later migrations change it (docs/operations/upgrade.md).
-- Column names are the wire names. The comments of columns are in prisma/schema.prisma.
--
-- In all tables:
--   - Tables of tenants have a primary key that begins with tenant_id, so that they can be distributed by it. Tables that are read
--     before a tenant is known, or belong to none, have another.
--   - `sealed` is encrypted and bound to the row. `digest` is keyed. `mac` is the signature of the row: it is NULL only within the
--     transaction that adds the row, which signs at its end. A row without one is refused.
--   - Byte order (COLLATE "C") is what searches for prefixes need, whatever the collation of the database is.

-- -------------------------------------------------------------------------------------------------------------------------------
-- The vault and its tenants
-- -------------------------------------------------------------------------------------------------------------------------------

-- One row, since one database is one vault. The root key unwraps the pepper.
CREATE TABLE instance (
  id INTEGER PRIMARY KEY DEFAULT 1 CONSTRAINT instance_is_one CHECK (id = 1),
  environment TEXT NOT NULL,
  wrapped_pepper BYTEA NOT NULL,
  created_at TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE TABLE tenants (
  id UUID PRIMARY KEY,
  name TEXT NOT NULL,
  owner_id UUID,
  settings JSONB NOT NULL DEFAULT '{}',
  created_at TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
  created_by UUID,
  modified_at TIMESTAMPTZ(3),
  modified_by UUID,
  -- Raised by each revocation: rows that are signed under an earlier version do not verify.
  auth_version INTEGER NOT NULL DEFAULT 0,
  mac BYTEA
);

-- Data keys and digest keys, wrapped by the root key.
CREATE TABLE tenant_keys (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  purpose TEXT NOT NULL,
  wrapped BYTEA NOT NULL,
  created_at TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (tenant_id, id)
);

-- Deleted tenants, until the sweep has removed their rows. Their keys are deleted at once.
CREATE TABLE deleted_tenants (
  id UUID PRIMARY KEY,
  deleted_at TIMESTAMPTZ(3) NOT NULL
);

-- What was destroyed with each deleted tenant: signed by the vault, and without values.
CREATE TABLE erasure_certificates (
  tenant_id UUID PRIMARY KEY,
  deleted_at TIMESTAMPTZ(3) NOT NULL,
  deletion JSONB NOT NULL,
  rows_deleted JSONB NOT NULL DEFAULT '{}',
  certificate JSONB
);
CREATE INDEX erasure_certificates_deleted_at_idx ON erasure_certificates (deleted_at) WHERE certificate IS NULL;

-- -------------------------------------------------------------------------------------------------------------------------------
-- Applications, their keys, and the sessions of browsers
-- -------------------------------------------------------------------------------------------------------------------------------

CREATE TABLE applications (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  name TEXT NOT NULL,
  search_name TEXT COLLATE "C" NOT NULL,
  type TEXT NOT NULL,
  permissions TEXT[] NOT NULL,
  rules JSONB NOT NULL DEFAULT '[]',
  allowed_hosts TEXT[] NOT NULL DEFAULT '{}',
  rate_limit JSONB,
  daily_reveals INTEGER,
  daily_uses INTEGER,
  echo_guard TEXT,
  allowed_origins TEXT[] NOT NULL DEFAULT '{}',
  container TEXT,
  creates_per_minute INTEGER,
  created_at TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
  created_by UUID,
  modified_at TIMESTAMPTZ(3),
  modified_by UUID,
  mac BYTEA,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX applications_tenant_id_created_at_id_idx ON applications (tenant_id, created_at DESC, id);

-- Found by the public id of a key, before a tenant is known.
CREATE TABLE api_keys (
  public_id TEXT PRIMARY KEY,
  tenant_id UUID NOT NULL,
  application_id UUID NOT NULL,
  digest BYTEA NOT NULL,
  name TEXT,
  expires_at TIMESTAMPTZ(3),
  allowed_addresses TEXT[] NOT NULL DEFAULT '{}',
  last_used_at TIMESTAMPTZ(3),
  created_at TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
  created_by UUID,
  modified_at TIMESTAMPTZ(3),
  modified_by UUID,
  mac BYTEA
);
CREATE INDEX api_keys_tenant_id_application_id_idx ON api_keys (tenant_id, application_id);

-- Sessions in which a browser creates a few tokens. Found by the public id of their key, or by the secret of their page.
CREATE TABLE collect_sessions (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  public_id TEXT NOT NULL,
  digest BYTEA NOT NULL,
  allowed_origins TEXT[] NOT NULL,
  types TEXT[] NOT NULL,
  container TEXT,
  metadata JSONB,
  bound_to JSONB,
  max_tokens INTEGER NOT NULL,
  token_ids TEXT[] NOT NULL DEFAULT '{}',
  return_url TEXT,
  page_digest BYTEA,
  expires_at TIMESTAMPTZ(3) NOT NULL,
  created_at TIMESTAMPTZ(3) NOT NULL,
  created_by UUID NOT NULL,
  key_id TEXT NOT NULL,
  -- The card whose security code it collects, in place of creating tokens, and the requests so far.
  token_id TEXT,
  tries INTEGER NOT NULL DEFAULT 0,
  mac BYTEA NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX collect_sessions_id_key ON collect_sessions (id);
CREATE UNIQUE INDEX collect_sessions_public_id_key ON collect_sessions (public_id);
CREATE UNIQUE INDEX collect_sessions_page_digest_key ON collect_sessions (page_digest);
CREATE INDEX collect_sessions_tenant_id_created_by_idx ON collect_sessions (tenant_id, created_by);
CREATE INDEX collect_sessions_expires_at_idx ON collect_sessions (expires_at);

-- The state of each rate limit. UNLOGGED: written with each request, and a crash may forget some seconds of it.
CREATE UNLOGGED TABLE request_rates (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  arrival_us BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, id)
);

-- How many tokens an application has revealed or used on a day, and which: a token counts once.
CREATE TABLE daily_budgets (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  application_id UUID NOT NULL,
  limit_name TEXT NOT NULL,
  day DATE NOT NULL,
  counted INTEGER NOT NULL,
  expires_at TIMESTAMPTZ(3) NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX daily_budgets_tenant_id_application_id_day_limit_name_key
  ON daily_budgets (tenant_id, application_id, day, limit_name);
CREATE INDEX daily_budgets_expires_at_idx ON daily_budgets (expires_at);

CREATE TABLE daily_tokens (
  tenant_id UUID NOT NULL,
  budget_id UUID NOT NULL,
  token_id TEXT NOT NULL,
  PRIMARY KEY (tenant_id, budget_id, token_id)
);

-- Counts tokens for a day's budget, all or none. A function, since each of its statements sees what was committed before it
-- began: the count has to see what others counted before they gave up the lock, which is the row of the budget.
--
-- ids: the tokens. most: the limit. new_id and until: of the row of the budget, if the function adds it.
-- Returns how many are counted now, and whether these are among them.
CREATE FUNCTION count_daily_tokens(
  of_tenant uuid, of_application uuid, of_limit text, on_day date, ids text[], most int, new_id uuid, until timestamptz
) RETURNS TABLE (counted int, is_allowed boolean)
LANGUAGE plpgsql AS $$
DECLARE
  budget uuid;
  fresh text[];
BEGIN
  SELECT b.id, b.counted INTO budget, counted FROM daily_budgets b
  WHERE b.tenant_id = of_tenant AND b.application_id = of_application AND b.day = on_day AND b.limit_name = of_limit;
  IF budget IS NULL THEN
    INSERT INTO daily_budgets (tenant_id, id, application_id, limit_name, day, counted, expires_at)
    VALUES (of_tenant, new_id, of_application, of_limit, on_day, 0, until) ON CONFLICT DO NOTHING;
  ELSE
    -- Without the lock: most requests are for tokens that are counted. What is too much now is too much later, as counts grow.
    -- OFFSET 0 looks each token up by itself. Else PostgreSQL may read all tokens of the budget.
    SELECT array_agg(DISTINCT w.id) INTO fresh FROM unnest(ids) AS w(id) WHERE NOT EXISTS (
      SELECT FROM daily_tokens t WHERE t.tenant_id = of_tenant AND t.budget_id = budget AND t.token_id = w.id OFFSET 0
    );
    is_allowed := fresh IS NULL OR counted + cardinality(fresh) <= most;
    IF fresh IS NULL OR NOT is_allowed THEN
      RETURN NEXT;
      RETURN;
    END IF;
  END IF;
  SELECT b.id, b.counted INTO budget, counted FROM daily_budgets b
  WHERE b.tenant_id = of_tenant AND b.application_id = of_application AND b.day = on_day AND b.limit_name = of_limit
  FOR UPDATE;
  SELECT coalesce(array_agg(DISTINCT w.id), '{}') INTO fresh FROM unnest(ids) AS w(id) WHERE NOT EXISTS (
    SELECT FROM daily_tokens t WHERE t.tenant_id = of_tenant AND t.budget_id = budget AND t.token_id = w.id OFFSET 0
  );
  is_allowed := cardinality(fresh) = 0 OR counted + cardinality(fresh) <= most;
  IF is_allowed AND cardinality(fresh) > 0 THEN
    INSERT INTO daily_tokens (tenant_id, budget_id, token_id) SELECT of_tenant, budget, w.id FROM unnest(fresh) AS w(id);
    counted := counted + cardinality(fresh);
    UPDATE daily_budgets b SET counted = count_daily_tokens.counted WHERE b.tenant_id = of_tenant AND b.id = budget;
  END IF;
  RETURN NEXT;
END
$$;

-- -------------------------------------------------------------------------------------------------------------------------------
-- Tokens
-- -------------------------------------------------------------------------------------------------------------------------------

CREATE TABLE tokens (
  tenant_id UUID NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  type TEXT NOT NULL,
  sealed BYTEA NOT NULL,
  fingerprint TEXT,
  fingerprint_expression TEXT,
  container TEXT COLLATE "C" NOT NULL,
  metadata JSONB,
  search_indexes TEXT[],
  search_digests TEXT[],
  -- Whether the sweep is to make the digests again: after a writer that does not know all of them.
  digests_due BOOLEAN NOT NULL DEFAULT true,
  expires_at TIMESTAMPTZ(3),
  -- Where the value may go, how often and until when. NULL without bounds.
  bound_to JSONB,
  -- Whether a mask hides the value from a plain permission: searches by value find only tokens without one.
  masked BOOLEAN NOT NULL,
  created_at TIMESTAMPTZ(3) NOT NULL,
  created_by UUID,
  modified_at TIMESTAMPTZ(3),
  modified_by UUID,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX tokens_digests_due_idx ON tokens (tenant_id, id) WHERE digests_due;
CREATE INDEX tokens_expires_at_idx ON tokens (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX tokens_fingerprint_tenant_id_idx ON tokens (fingerprint, tenant_id);
-- The pending list is kept short: a write that has to empty it waits for milliseconds, not for a second.
CREATE INDEX tokens_search_digests_idx
  ON tokens USING gin (search_digests) WITH (gin_pending_list_limit = 512) WHERE search_digests IS NOT NULL;
CREATE INDEX tokens_tenant_id_container_created_at_id_idx ON tokens (tenant_id, container, created_at, id DESC);
CREATE INDEX tokens_tenant_id_created_at_id_idx ON tokens (tenant_id, created_at, id DESC);
CREATE INDEX tokens_tenant_id_created_by_created_at_id_idx ON tokens (tenant_id, created_by, created_at, id DESC);
CREATE INDEX tokens_tenant_id_modified_at_id_idx ON tokens (tenant_id, modified_at, id DESC) WHERE modified_at IS NOT NULL;
CREATE INDEX tokens_tenant_id_modified_by_idx ON tokens (tenant_id, modified_by) WHERE modified_by IS NOT NULL;
CREATE INDEX tokens_tenant_id_type_created_at_id_idx ON tokens (tenant_id, type, created_at, id DESC);
CREATE INDEX tokens_type_tenant_id_container_idx ON tokens (type, tenant_id, container);

-- The security code of a card, apart from it, so that it can be destroyed.
CREATE TABLE token_cvcs (
  tenant_id UUID NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  sealed BYTEA NOT NULL,
  expires_at TIMESTAMPTZ(3) NOT NULL,
  claimed_until TIMESTAMPTZ(3),
  claimed_by UUID,
  kept INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX token_cvcs_expires_at_idx ON token_cvcs (expires_at);

-- The keys of security codes. UNLOGGED: the rows are in no WAL, no replica and no base backup, and a crash empties the table.
-- A code that is sealed under one of them ceases to exist with the row (docs/decisions/0003-cvc.md).
CREATE UNLOGGED TABLE ephemeral_keys (
  id TEXT PRIMARY KEY,
  wrapped BYTEA NOT NULL,
  destroy_at TIMESTAMPTZ(3) NOT NULL
);

CREATE TABLE token_associations (
  tenant_id UUID NOT NULL,
  parent_id TEXT COLLATE "C" NOT NULL,
  child_id TEXT COLLATE "C" NOT NULL,
  child_created_at TIMESTAMPTZ(3) NOT NULL,
  created_at TIMESTAMPTZ(3) NOT NULL,
  created_by UUID,
  PRIMARY KEY (tenant_id, parent_id, child_id),
  FOREIGN KEY (tenant_id, parent_id) REFERENCES tokens (tenant_id, id) ON DELETE CASCADE,
  FOREIGN KEY (tenant_id, child_id) REFERENCES tokens (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX token_associations_tenant_id_child_id_idx ON token_associations (tenant_id, child_id);
CREATE INDEX token_associations_tenant_id_parent_id_child_created_at_chi_idx
  ON token_associations (tenant_id, parent_id, child_created_at, child_id DESC);

-- Uses of a token whose bound, or the access rule of an application, counts them, and the sum of the amounts in minor units. The
-- application of its own bound is all zeros.
CREATE TABLE token_uses (
  tenant_id UUID NOT NULL,
  token_id TEXT COLLATE "C" NOT NULL,
  application_id UUID NOT NULL,
  uses INTEGER NOT NULL,
  total BIGINT NOT NULL,
  given_back BOOLEAN NOT NULL DEFAULT false,
  PRIMARY KEY (tenant_id, token_id, application_id),
  FOREIGN KEY (tenant_id, token_id) REFERENCES tokens (tenant_id, id) ON DELETE CASCADE
);

-- Changes of the number of tokens, which each write appends and the sweep adds up. One row for each count would be a lock.
CREATE TABLE token_counts (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  type TEXT NOT NULL,
  change INTEGER NOT NULL,
  last_created_at TIMESTAMPTZ(3),
  PRIMARY KEY (tenant_id, id)
);

-- The sealed response to the first request with an idempotency key.
CREATE TABLE idempotency_keys (
  tenant_id UUID NOT NULL,
  id TEXT NOT NULL,
  claim UUID NOT NULL,
  claimed_until TIMESTAMPTZ(3) NOT NULL,
  route TEXT NOT NULL,
  status INTEGER,
  sealed BYTEA,
  expires_at TIMESTAMPTZ(3) NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX idempotency_keys_expires_at_idx ON idempotency_keys (expires_at);

-- -------------------------------------------------------------------------------------------------------------------------------
-- Code and proxies
-- -------------------------------------------------------------------------------------------------------------------------------

-- Formulas of the release, for all tenants. Their code is public.
CREATE TABLE official_formulas (
  id UUID PRIMARY KEY,
  name TEXT NOT NULL,
  search_name TEXT COLLATE "C" NOT NULL,
  description TEXT,
  status TEXT NOT NULL,
  icon TEXT,
  code TEXT NOT NULL,
  configuration JSONB NOT NULL,
  request_parameters JSONB NOT NULL,
  version INTEGER NOT NULL DEFAULT 1,
  created_at TIMESTAMPTZ(3) NOT NULL,
  modified_at TIMESTAMPTZ(3)
);

CREATE TABLE reactor_formulas (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  name TEXT NOT NULL,
  search_name TEXT COLLATE "C" NOT NULL,
  description TEXT,
  icon TEXT,
  sealed BYTEA NOT NULL,
  configuration JSONB NOT NULL,
  request_parameters JSONB NOT NULL,
  version INTEGER NOT NULL DEFAULT 1,
  created_at TIMESTAMPTZ(3) NOT NULL,
  created_by UUID,
  modified_at TIMESTAMPTZ(3),
  modified_by UUID,
  mac BYTEA,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX reactor_formulas_tenant_id_created_at_id_idx ON reactor_formulas (tenant_id, created_at DESC, id);
CREATE INDEX reactor_formulas_tenant_id_search_name_created_at_id_idx
  ON reactor_formulas (tenant_id, search_name, created_at DESC, id);

CREATE TABLE reactors (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  name TEXT NOT NULL,
  search_name TEXT COLLATE "C" NOT NULL,
  formula_id UUID NOT NULL,
  application_id UUID,
  echo_guard TEXT,
  sealed BYTEA NOT NULL,
  version INTEGER NOT NULL DEFAULT 1,
  created_at TIMESTAMPTZ(3) NOT NULL,
  created_by UUID,
  modified_at TIMESTAMPTZ(3),
  modified_by UUID,
  mac BYTEA,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX reactors_tenant_id_created_at_id_idx ON reactors (tenant_id, created_at DESC, id);
CREATE INDEX reactors_tenant_id_formula_id_idx ON reactors (tenant_id, formula_id);
CREATE INDEX reactors_tenant_id_search_name_created_at_id_idx ON reactors (tenant_id, search_name, created_at DESC, id);

CREATE TABLE proxies (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  name TEXT NOT NULL,
  search_name TEXT COLLATE "C" NOT NULL,
  application_id UUID,
  require_auth BOOLEAN NOT NULL,
  allowed_hosts TEXT[] NOT NULL DEFAULT '{}',
  sealed BYTEA NOT NULL,
  version INTEGER NOT NULL DEFAULT 1,
  created_at TIMESTAMPTZ(3) NOT NULL,
  created_by UUID,
  modified_at TIMESTAMPTZ(3),
  modified_by UUID,
  mac BYTEA,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX proxies_tenant_id_created_at_id_idx ON proxies (tenant_id, created_at DESC, id);
CREATE INDEX proxies_tenant_id_search_name_created_at_id_idx ON proxies (tenant_id, search_name, created_at DESC, id);

-- Where events go. The URL and the secrets are sealed. The deliveries are below.
CREATE TABLE webhooks (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  name TEXT NOT NULL,
  search_name TEXT COLLATE "C" NOT NULL,
  -- Types of events; {*} for all.
  events TEXT[] NOT NULL,
  -- Null: of all containers, without masks.
  container TEXT,
  sealed BYTEA NOT NULL,
  -- enabled, or paused by a caller or by the vault.
  status TEXT NOT NULL DEFAULT 'enabled',
  -- Since when no delivery succeeds; null while they do.
  failing_since TIMESTAMPTZ(3),
  created_at TIMESTAMPTZ(3) NOT NULL,
  created_by UUID,
  modified_at TIMESTAMPTZ(3),
  modified_by UUID,
  mac BYTEA,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX webhooks_tenant_id_created_at_id_idx ON webhooks (tenant_id, created_at DESC, id);
CREATE INDEX webhooks_tenant_id_search_name_created_at_id_idx ON webhooks (tenant_id, search_name, created_at DESC, id);

-- The code of formulas and transforms as it was deployed. Numbers count the versions of one resource.
CREATE TABLE code_versions (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  resource_type TEXT NOT NULL,
  resource_id UUID NOT NULL,
  number INTEGER NOT NULL,
  sealed BYTEA NOT NULL,
  note TEXT,
  created_at TIMESTAMPTZ(3) NOT NULL,
  created_by UUID,
  mac BYTEA,
  PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX code_versions_tenant_id_resource_type_resource_id_number_key
  ON code_versions (tenant_id, resource_type, resource_id, number);

-- Code that a member or application has saved and not deployed.
CREATE TABLE code_drafts (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  resource_type TEXT NOT NULL,
  resource_id UUID NOT NULL,
  owner_id UUID NOT NULL,
  sealed BYTEA NOT NULL,
  modified_at TIMESTAMPTZ(3) NOT NULL,
  mac BYTEA,
  PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX code_drafts_tenant_id_resource_type_resource_id_owner_id_key
  ON code_drafts (tenant_id, resource_type, resource_id, owner_id);
CREATE INDEX code_drafts_modified_at_idx ON code_drafts (modified_at);

-- Found by the digest of a proxy's key, before a tenant is known.
CREATE TABLE proxy_keys (
  digest BYTEA PRIMARY KEY,
  tenant_id UUID NOT NULL,
  proxy_id UUID NOT NULL
);
CREATE INDEX proxy_keys_tenant_id_proxy_id_idx ON proxy_keys (tenant_id, proxy_id);

-- -------------------------------------------------------------------------------------------------------------------------------
-- People
-- -------------------------------------------------------------------------------------------------------------------------------

-- Users belong to no tenant: a membership leads to each of their tenants.
CREATE TABLE users (
  id UUID PRIMARY KEY,
  address_digest BYTEA NOT NULL,
  password_hash TEXT NOT NULL,
  second_factor BYTEA,
  second_factor_since TIMESTAMPTZ(3),
  second_factor_step BIGINT,
  recovery_digests BYTEA[] NOT NULL DEFAULT '{}',
  created_at TIMESTAMPTZ(3) NOT NULL,
  -- As that of tenants.
  auth_version INTEGER NOT NULL DEFAULT 0,
  mac BYTEA
);
CREATE UNIQUE INDEX users_address_digest_key ON users (address_digest);

CREATE TABLE passkeys (
  id UUID PRIMARY KEY,
  user_id UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  sealed BYTEA NOT NULL,
  created_at TIMESTAMPTZ(3) NOT NULL,
  used_at TIMESTAMPTZ(3)
);
CREATE INDEX passkeys_user_id_idx ON passkeys (user_id);

-- The newest link of a user that resets the password. Found by the digest of its secret.
CREATE TABLE password_resets (
  digest BYTEA PRIMARY KEY,
  user_id UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  expires_at TIMESTAMPTZ(3) NOT NULL,
  mac BYTEA
);
CREATE UNIQUE INDEX password_resets_user_id_key ON password_resets (user_id);
CREATE INDEX password_resets_expires_at_idx ON password_resets (expires_at);

CREATE TABLE memberships (
  user_id UUID NOT NULL,
  tenant_id UUID NOT NULL,
  member_id UUID NOT NULL,
  PRIMARY KEY (user_id, tenant_id)
);
CREATE INDEX memberships_tenant_id_member_id_idx ON memberships (tenant_id, member_id);

CREATE TABLE members (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  user_id UUID NOT NULL,
  role TEXT NOT NULL,
  address_digest BYTEA NOT NULL,
  sealed BYTEA NOT NULL,
  created_at TIMESTAMPTZ(3) NOT NULL,
  created_by UUID,
  modified_at TIMESTAMPTZ(3),
  modified_by UUID,
  mac BYTEA,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX members_tenant_id_address_digest_idx ON members (tenant_id, address_digest);
CREATE INDEX members_tenant_id_created_at_id_idx ON members (tenant_id, created_at DESC, id);
CREATE UNIQUE INDEX members_tenant_id_owner_key ON members (tenant_id) WHERE role = 'OWNER';
CREATE UNIQUE INDEX members_tenant_id_user_id_key ON members (tenant_id, user_id);

CREATE TABLE invitations (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  role TEXT NOT NULL,
  address_digest BYTEA NOT NULL,
  sealed BYTEA NOT NULL,
  expires_at TIMESTAMPTZ(3) NOT NULL,
  created_at TIMESTAMPTZ(3) NOT NULL,
  created_by UUID,
  modified_at TIMESTAMPTZ(3),
  modified_by UUID,
  mac BYTEA,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX invitations_tenant_id_address_digest_idx ON invitations (tenant_id, address_digest);
CREATE INDEX invitations_tenant_id_created_at_id_idx ON invitations (tenant_id, created_at DESC, id);

-- The newest link of an invitation. Found by the digest of its secret.
CREATE TABLE invitation_secrets (
  digest BYTEA PRIMARY KEY,
  tenant_id UUID NOT NULL,
  invitation_id UUID NOT NULL,
  mac BYTEA
);
CREATE UNIQUE INDEX invitation_secrets_tenant_id_invitation_id_key ON invitation_secrets (tenant_id, invitation_id);

-- Sessions of the console. Found by the digest of the secret in a cookie.
CREATE TABLE sessions (
  digest BYTEA PRIMARY KEY,
  tenant_id UUID NOT NULL,
  member_id UUID NOT NULL,
  user_id UUID NOT NULL,
  created_at TIMESTAMPTZ(3) NOT NULL,
  seen_at TIMESTAMPTZ(3) NOT NULL,
  expires_at TIMESTAMPTZ(3) NOT NULL,
  second_factor_at TIMESTAMPTZ(3),
  mac BYTEA
);
CREATE INDEX sessions_tenant_id_member_id_idx ON sessions (tenant_id, member_id);
CREATE INDEX sessions_user_id_idx ON sessions (user_id);
CREATE INDEX sessions_expires_at_idx ON sessions (expires_at);

-- Failed attempts to sign in, until they expire.
CREATE TABLE attempts (
  digest BYTEA PRIMARY KEY,
  failures INTEGER NOT NULL,
  ends_at TIMESTAMPTZ(3) NOT NULL
);
CREATE INDEX attempts_ends_at_idx ON attempts (ends_at);

-- Mails to send, written in the transaction of their operation. A sent mail has no content, and is kept for a while to be counted.
CREATE TABLE mail_outbox (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  kind TEXT NOT NULL DEFAULT 'invitation',
  -- Of the invitation, or of the user whose password is reset.
  invitation_id UUID NOT NULL,
  address_digest BYTEA NOT NULL,
  sealed BYTEA,
  attempts INTEGER NOT NULL DEFAULT 0,
  due_at TIMESTAMPTZ(3) NOT NULL,
  expires_at TIMESTAMPTZ(3) NOT NULL,
  created_at TIMESTAMPTZ(3) NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX mail_outbox_address_digest_created_at_idx ON mail_outbox (address_digest, created_at);
CREATE INDEX mail_outbox_created_at_idx ON mail_outbox (created_at);
CREATE INDEX mail_outbox_due_at_idx ON mail_outbox (due_at) WHERE sealed IS NOT NULL;
CREATE INDEX mail_outbox_tenant_id_created_at_idx ON mail_outbox (tenant_id, created_at);
CREATE INDEX mail_outbox_tenant_id_invitation_id_idx ON mail_outbox (tenant_id, invitation_id);

-- Single sign-on by OpenID Connect: the provider of a tenant.
CREATE TABLE sso_providers (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  sealed BYTEA NOT NULL,
  modified_at TIMESTAMPTZ(3) NOT NULL,
  mac BYTEA,
  PRIMARY KEY (tenant_id, id)
);

-- E-mail domains that the operator has bound to a tenant.
CREATE TABLE sso_domains (
  domain TEXT COLLATE "C" PRIMARY KEY,
  tenant_id UUID NOT NULL,
  created_at TIMESTAMPTZ(3) NOT NULL,
  mac BYTEA
);
CREATE INDEX sso_domains_tenant_id_idx ON sso_domains (tenant_id);

-- The accounts at providers that members sign in with.
CREATE TABLE sso_identities (
  tenant_id UUID NOT NULL,
  digest BYTEA NOT NULL,
  member_id UUID NOT NULL,
  created_at TIMESTAMPTZ(3) NOT NULL,
  mac BYTEA,
  PRIMARY KEY (tenant_id, digest)
);
CREATE UNIQUE INDEX sso_identities_tenant_id_member_id_key ON sso_identities (tenant_id, member_id);

-- Sign-ins under way. Found by the digest of their state.
CREATE TABLE sso_flows (
  digest BYTEA PRIMARY KEY,
  tenant_id UUID NOT NULL,
  next TEXT NOT NULL,
  session BYTEA,
  created_at TIMESTAMPTZ(3) NOT NULL,
  expires_at TIMESTAMPTZ(3) NOT NULL,
  mac BYTEA NOT NULL
);
CREATE INDEX sso_flows_expires_at_idx ON sso_flows (expires_at);

-- What is kept of a session of the console that began so.
CREATE TABLE sso_sessions (
  digest BYTEA PRIMARY KEY,
  tenant_id UUID NOT NULL,
  sealed BYTEA NOT NULL,
  expires_at TIMESTAMPTZ(3) NOT NULL,
  mac BYTEA
);
CREATE INDEX sso_sessions_tenant_id_idx ON sso_sessions (tenant_id);
CREATE INDEX sso_sessions_expires_at_idx ON sso_sessions (expires_at);

-- -------------------------------------------------------------------------------------------------------------------------------
-- The audit log
-- -------------------------------------------------------------------------------------------------------------------------------

-- Rows are appended in the statement of their operation, and never changed. Ids begin with their time, and each month of ids has a
-- partition. The ranges have no gap: audit_log_before_2027_01 takes everything below its bound, audit_log_from_2027_05 everything
-- above. So no row is refused for want of a partition. A DEFAULT partition would do that too, but PostgreSQL then reads all
-- partitions for the newest rows: it could have some of them.
CREATE TABLE audit_log (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  actor_id UUID,
  actor_type TEXT,
  entity_type TEXT NOT NULL,
  entity_ids TEXT[] NOT NULL,
  operation TEXT NOT NULL,
  message TEXT NOT NULL,
  created_at TIMESTAMPTZ(3) NOT NULL,
  disclosure TEXT NOT NULL,
  outcome TEXT NOT NULL DEFAULT 'success',
  trace_id TEXT,
  otel_trace_id TEXT,
  ip TEXT,
  reactor_id UUID,
  proxy_id UUID,
  destination_host TEXT,
  is_list BOOLEAN NOT NULL DEFAULT false,
  application_id UUID,
  code_application_id UUID,
  reason TEXT,
  -- 16 bytes as a UUID, which row_to_json writes in one way, unlike BYTEA.
  mac UUID NOT NULL,
  PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);
CREATE INDEX audit_log_tenant_id_entity_type_id_idx ON audit_log (tenant_id, entity_type, id);
CREATE INDEX audit_log_tenant_id_actor_id_id_idx ON audit_log (tenant_id, actor_id, id);
CREATE INDEX audit_log_tenant_id_operation_id_idx ON audit_log (tenant_id, operation, id);
CREATE INDEX audit_log_tenant_id_outcome_id_idx ON audit_log (tenant_id, outcome, id) WHERE outcome <> 'success';
CREATE INDEX audit_log_without_readings_idx ON audit_log (tenant_id, id) WHERE entity_type <> 'log';
CREATE INDEX audit_log_tenant_id_disclosure_id_idx ON audit_log (tenant_id, disclosure, id);
CREATE INDEX audit_log_tenant_id_application_id_id_idx ON audit_log (tenant_id, application_id, id) WHERE application_id IS NOT NULL;
CREATE INDEX audit_log_tenant_id_trace_id_id_idx ON audit_log (tenant_id, trace_id, id) WHERE trace_id IS NOT NULL;
CREATE INDEX audit_log_tenant_id_destination_host_id_idx ON audit_log (tenant_id, destination_host, id)
  WHERE destination_host IS NOT NULL;
-- Rows of all tenants by their time, for streams. They are on disk in about this order: a page of the index is enough for months.
CREATE INDEX audit_log_id_idx ON audit_log USING brin (id) WITH (autosummarize = on);
CREATE INDEX audit_log_entity_ids_idx ON audit_log USING gin (entity_ids) WITH (gin_pending_list_limit = 512);

-- How far each stream of the log has come: rows with ids up to `position` were streamed.
CREATE TABLE log_streams (
  name TEXT PRIMARY KEY,
  position UUID NOT NULL
);

-- The Merkle trees over the log, one for each tenant. Leaves are in the order of the ids of rows.
CREATE TABLE log_trees (
  tenant_id UUID PRIMARY KEY,
  -- Leaves.
  size BIGINT NOT NULL,
  root BYTEA NOT NULL,
  -- The row of the last leaf.
  last_id UUID NOT NULL,
  -- The size of the newest checkpoint.
  signed_size BIGINT NOT NULL
);

-- Leaf hashes with the ids of their rows, 256 in a block: 48 bytes a row. A block begins with the frontier of the leaves before it,
-- so that the tree goes on without earlier blocks: they are deleted with their months. Hashes do not compress.
CREATE TABLE log_leaves (
  tenant_id UUID NOT NULL,
  number BIGINT NOT NULL,
  last_id UUID NOT NULL,
  frontier BYTEA NOT NULL,
  ids BYTEA NOT NULL,
  hashes BYTEA NOT NULL,
  PRIMARY KEY (tenant_id, number)
);
ALTER TABLE log_leaves ALTER COLUMN ids SET STORAGE EXTERNAL, ALTER COLUMN hashes SET STORAGE EXTERNAL;

-- Signed notes of the size and root of a tree. Ids begin with their time: exports follow their order.
CREATE TABLE log_checkpoints (
  tenant_id UUID NOT NULL,
  size BIGINT NOT NULL,
  id UUID NOT NULL,
  note TEXT NOT NULL,
  created_at TIMESTAMPTZ(3) NOT NULL,
  -- The last row of a month: its archive ends with this checkpoint.
  ends_month BOOLEAN NOT NULL,
  PRIMARY KEY (tenant_id, size)
);
CREATE UNIQUE INDEX log_checkpoints_id_idx ON log_checkpoints (id);
CREATE INDEX log_checkpoints_created_at_idx ON log_checkpoints (created_at);

-- Months whose rows were moved into an archive. `note` signs the range, the rows and the digest: then their rows are not missing.
CREATE TABLE log_archives (
  name TEXT PRIMARY KEY,
  from_id UUID,
  to_id UUID NOT NULL,
  archived_at TIMESTAMPTZ(3) NOT NULL,
  rows BIGINT NOT NULL,
  sha256 TEXT NOT NULL,
  note TEXT NOT NULL
);

-- -------------------------------------------------------------------------------------------------------------------------------
-- All processes
-- -------------------------------------------------------------------------------------------------------------------------------

-- The process that does a periodic task. Another one may take the lease after its end.
CREATE TABLE leases (
  name TEXT PRIMARY KEY,
  holder UUID NOT NULL,
  ends_at TIMESTAMPTZ(3) NOT NULL
);

-- What was deleted, until no backup has it any more, so that a restored backup does not bring it back. `made_at` is when the deleted
-- record was made: a later one with its id is another.
CREATE TABLE erasures (
  tenant_id UUID NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  made_at TIMESTAMPTZ(3) NOT NULL,
  erased_at TIMESTAMPTZ(3) NOT NULL,
  PRIMARY KEY (tenant_id, id, kind, made_at)
);
CREATE INDEX erasures_erased_at_idx ON erasures (erased_at);

-- A trigger writes the row within the statement that deletes: it costs no round trip, and the sweep and an operator's SQL are
-- recorded too. Of a deleted tenant one row tells all.
CREATE FUNCTION record_erasures() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_TABLE_NAME = 'tenants' THEN
    INSERT INTO erasures (tenant_id, id, kind, made_at, erased_at)
    SELECT g.id, g.id::text, TG_ARGV[0], g.created_at, now() FROM gone g ON CONFLICT DO NOTHING;
  ELSIF TG_TABLE_NAME = 'api_keys' THEN
    INSERT INTO erasures (tenant_id, id, kind, made_at, erased_at)
    SELECT g.tenant_id, g.public_id, TG_ARGV[0], g.created_at, now() FROM gone g
    WHERE EXISTS (SELECT FROM tenants t WHERE t.id = g.tenant_id) ON CONFLICT DO NOTHING;
  ELSE
    INSERT INTO erasures (tenant_id, id, kind, made_at, erased_at)
    SELECT g.tenant_id, g.id::text, TG_ARGV[0], g.created_at, now() FROM gone g
    WHERE EXISTS (SELECT FROM tenants t WHERE t.id = g.tenant_id) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END
$$;

CREATE TRIGGER tenants_record_erasures AFTER DELETE ON tenants REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION record_erasures('tenant');
CREATE TRIGGER applications_record_erasures AFTER DELETE ON applications REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION record_erasures('application');
CREATE TRIGGER api_keys_record_erasures AFTER DELETE ON api_keys REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION record_erasures('api_key');
CREATE TRIGGER tokens_record_erasures AFTER DELETE ON tokens REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION record_erasures('token');
CREATE TRIGGER proxies_record_erasures AFTER DELETE ON proxies REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION record_erasures('proxy');
CREATE TRIGGER webhooks_record_erasures AFTER DELETE ON webhooks REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION record_erasures('webhook');
CREATE TRIGGER members_record_erasures AFTER DELETE ON members REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION record_erasures('member');
CREATE TRIGGER invitations_record_erasures AFTER DELETE ON invitations REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION record_erasures('invitation');

-- -------------------------------------------------------------------------------------------------------------------------------
-- Tokens that must be the only ones with their fingerprint
-- -------------------------------------------------------------------------------------------------------------------------------

-- Writes tokens of which some must be the only ones with their fingerprint. A function, since each of its statements sees what
-- was committed before it began: the look for an equal token has to see what others wrote before they gave up the lock.
--
-- given: the rows as INSERT_TOKENS takes them (src/modules/tokens/rows/token-sql.ts). A row with `seen` is not written where a token
-- with its fingerprint and expression is there, in a container that one of these LIKE patterns matches.
-- Returns for each row that was not written its place, from 1, and the id of the token that is there.
CREATE FUNCTION insert_unique_tokens(of_tenant uuid, given json) RETURNS TABLE (place int, existing text)
LANGUAGE plpgsql AS $$
DECLARE
  r record;
  written text[] := '{}';
BEGIN
  -- The locks that LOCK_FINGERPRINTS takes, in its order.
  PERFORM pg_advisory_xact_lock(hashtext(of_tenant::text), lock) FROM (
    SELECT DISTINCT abs(hashtext(g.fingerprint) % 64) AS lock
    FROM json_to_recordset(given) AS g(fingerprint text, seen text[]) WHERE g.seen IS NOT NULL ORDER BY 1
  ) AS locks;
  FOR r IN
    SELECT g.* FROM ROWS FROM (json_to_recordset(given) AS (
      id text, type text, sealed text, fingerprint text, fingerprint_expression text, container text, metadata jsonb,
      search_indexes text[], search_digests text[], expires_at timestamptz, bound_to jsonb, masked boolean, cvc_sealed text,
      cvc_expires_at timestamptz, created_at timestamptz, created_by uuid, seen text[]
    )) WITH ORDINALITY AS g
  LOOP
    existing := NULL;
    IF r.seen IS NOT NULL THEN
      -- OFFSET 0 keeps PostgreSQL from walking all tokens by their time in the hope of meeting an equal one soon.
      SELECT equal.id INTO existing FROM (
        SELECT t.id, t.created_at FROM tokens t
        WHERE t.tenant_id IS NOT DISTINCT FROM of_tenant AND t.fingerprint = r.fingerprint
          AND t.fingerprint_expression = r.fingerprint_expression AND t.container LIKE ANY (r.seen)
          AND (t.expires_at IS NULL OR t.expires_at > r.created_at) AND t.bound_to IS NOT DISTINCT FROM r.bound_to
        OFFSET 0
      ) AS equal ORDER BY equal.created_at, equal.id LIMIT 1;
    END IF;
    IF existing IS NOT NULL THEN
      place := r.ordinality;
      RETURN NEXT;
      CONTINUE;
    END IF;
    INSERT INTO tokens (tenant_id, id, type, sealed, fingerprint, fingerprint_expression, container, metadata,
      search_indexes, search_digests, digests_due, expires_at, bound_to, masked, created_at, created_by)
    VALUES (of_tenant, r.id, r.type, decode(r.sealed, 'base64'), r.fingerprint, r.fingerprint_expression, r.container,
      r.metadata, r.search_indexes, r.search_digests, false, r.expires_at, r.bound_to, r.masked, r.created_at,
      r.created_by);
    IF r.cvc_sealed IS NOT NULL THEN
      INSERT INTO token_cvcs (tenant_id, id, sealed, expires_at)
      VALUES (of_tenant, r.id, decode(r.cvc_sealed, 'base64'), r.cvc_expires_at);
    END IF;
    written := written || r.id;
  END LOOP;
  INSERT INTO token_counts (tenant_id, id, type, change, last_created_at)
  SELECT of_tenant, gen_random_uuid(), g.type, count(*), max(g.created_at)
  FROM json_to_recordset(given) AS g(id text, type text, created_at timestamptz)
  WHERE g.id = ANY (written) GROUP BY g.type;
  INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at,
    disclosure, trace_id, ip, reactor_id, proxy_id, otel_trace_id, application_id, code_application_id, mac)
  SELECT of_tenant, l.log_id, l.created_by, l.actor_type, l.type, of.ids, 'create', l.message, l.created_at, 'none',
    l.trace_id, l.ip, l.reactor_id, l.proxy_id, l.otel_trace_id, l.application_id, l.code_application_id, l.log_mac
  FROM (
    SELECT g.log_id, array_agg(g.id) AS ids FROM json_to_recordset(given) AS g(id text, log_id uuid)
    WHERE g.id = ANY (written) GROUP BY g.log_id
  ) AS of
  JOIN json_to_recordset(given) AS l(type text, created_at timestamptz, created_by uuid, log_id uuid, actor_type text,
    message text, trace_id text, ip text, reactor_id uuid, proxy_id uuid, otel_trace_id text,
    application_id uuid, code_application_id uuid, log_mac uuid) ON l.log_id = of.log_id AND l.message IS NOT NULL;
END
$$;

-- -------------------------------------------------------------------------------------------------------------------------------
-- Row-level security, a second wall between tenants
-- -------------------------------------------------------------------------------------------------------------------------------

-- A statement names the tenants whose rows it may see in the setting strongroom.tenants: ids divided by commas, or * for all. Without
-- the setting it sees none. `migrate` raises the wall of each table after all migrations.
--
-- Raises the wall of a table that has tenants, with the rights of its owner: the server may call it, whose role may change no table.
-- PostgreSQL reads the setting once for a statement. CASE, so that the condition says nothing about the number of rows: that is what
-- the conditions of the statement itself say. A statement that waited for a lock computes both branches when it looks at the new
-- version of the row, so the list of ids must be one for * too.
CREATE FUNCTION raise_tenant_wall(walled regclass) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET lock_timeout = '2s' AS $$
DECLARE
  named constant text := format(
    $condition$CASE (SELECT current_setting('strongroom.tenants', true)) WHEN '*' THEN true
      ELSE %I = ANY ((SELECT string_to_array(nullif(current_setting('strongroom.tenants', true), '*'), ',')::uuid[])::uuid[]) END$condition$,
    (SELECT CASE WHEN relname IN ('tenants', 'deleted_tenants') THEN 'id' ELSE 'tenant_id' END FROM pg_class WHERE oid = walled));
  own text;
  command text;
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', walled);
  FOR own IN SELECT polname FROM pg_policy WHERE polrelid = walled AND polname IN (
    'named_tenants', 'named_tenants_insert', 'named_tenants_update', 'named_tenants_delete', 'open_reads')
  LOOP
    EXECUTE format('DROP POLICY %I ON %s', own, walled);
  END LOOP;
  -- Their searches use an index by @>. Behind a policy PostgreSQL uses it only if a superuser has marked @> as leakproof.
  IF (SELECT oid IN (to_regclass('tokens'), to_regclass('audit_log')) FROM pg_class WHERE oid = walled)
    AND NOT (SELECT proleakproof FROM pg_proc WHERE oid = 'pg_catalog.arraycontains(anyarray, anyarray)'::regprocedure)
  THEN
    EXECUTE format('CREATE POLICY open_reads ON %s FOR SELECT USING (true)', walled);
    EXECUTE format('CREATE POLICY named_tenants_insert ON %s FOR INSERT WITH CHECK (%s)', walled, named);
    EXECUTE format('CREATE POLICY named_tenants_update ON %s FOR UPDATE USING (%s)', walled, named);
    EXECUTE format('CREATE POLICY named_tenants_delete ON %s FOR DELETE USING (%s)', walled, named);
  ELSE
    EXECUTE format('CREATE POLICY named_tenants ON %s USING (%s)', walled, named);
  END IF;
END
$$;

-- -------------------------------------------------------------------------------------------------------------------------------
-- Partitions of the audit log by month
-- -------------------------------------------------------------------------------------------------------------------------------

-- The lowest id of a time.
CREATE FUNCTION log_id_at(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid;

-- The time of an id.
CREATE FUNCTION log_time_of(id uuid) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0);

-- The partitions with their bounds, oldest first. NULL is no bound.
CREATE FUNCTION log_partitions() RETURNS TABLE (name text, from_id uuid, to_id uuid) LANGUAGE sql STABLE AS $$
  SELECT c.relname::text, (regexp_match(bounds, 'FROM \(''([-0-9a-f]{36})''\)'))[1]::uuid,
    (regexp_match(bounds, 'TO \(''([-0-9a-f]{36})''\)'))[1]::uuid
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid CROSS JOIN pg_get_expr(c.relpartbound, c.oid) AS bounds
  WHERE i.inhparent = 'audit_log'::regclass ORDER BY 2 NULLS FIRST
$$;

-- Rights on the log are those on audit_log. On a partition its owner has those that do not change rows, and others have none. A new
-- partition of a walled log has a wall of its own.
CREATE FUNCTION close_log_partition(part regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  owner oid;
  grantee oid;
BEGIN
  SELECT relowner INTO owner FROM pg_class WHERE oid = part;
  EXECUTE format('REVOKE UPDATE, DELETE, TRUNCATE ON %s FROM %I', part, pg_get_userbyid(owner));
  FOR grantee IN SELECT DISTINCT acl.grantee FROM pg_class, aclexplode(relacl) AS acl WHERE pg_class.oid = part LOOP
    IF grantee = 0 THEN
      EXECUTE format('REVOKE ALL ON %s FROM PUBLIC', part);
    ELSIF grantee <> owner THEN
      EXECUTE format('REVOKE ALL ON %s FROM %I', part, pg_get_userbyid(grantee));
    END IF;
  END LOOP;
  IF (SELECT relforcerowsecurity FROM pg_class WHERE oid = 'audit_log'::regclass) THEN
    PERFORM raise_tenant_wall(part);
  END IF;
END
$$;

-- Makes an empty partition. The role must own audit_log.
CREATE FUNCTION make_log_partition(name text, from_id uuid, to_id uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE %I PARTITION OF audit_log FOR VALUES FROM (%s) TO (%s)', name,
    coalesce(quote_literal(from_id), 'MINVALUE'), coalesce(quote_literal(to_id), 'MAXVALUE'));
  PERFORM close_log_partition(name::regclass);
END
$$;

-- Makes the partitions of this month and the next three, where they are missing, and returns how many it made. The server calls it,
-- whose role may make no tables: so it runs with the rights of its owner, and takes nothing from the caller. Rows of these
-- months that are in the last partition move to theirs.
CREATE FUNCTION add_log_partitions() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
-- While the lock waits, all writes of log rows wait behind it. The next call tries again: the months are made ahead of time.
SET lock_timeout = '100ms' SET "TimeZone" = 'UTC' AS $$
DECLARE
  wanted constant timestamptz := date_trunc('month', now()) + interval '4 months';
  last text;
  last_id uuid;
  next_id uuid;
  has_rows boolean;
  made integer := 0;
  named constant text := coalesce(current_setting('strongroom.tenants', true), '');
BEGIN
  SELECT p.name, p.from_id INTO STRICT last, last_id FROM log_partitions() AS p WHERE p.to_id IS NULL;
  IF last_id >= log_id_at(wanted) THEN RETURN 0; END IF;
  -- The number has no meaning.
  IF NOT pg_try_advisory_xact_lock(7270736900651) THEN RETURN 0; END IF;
  BEGIN
    SELECT p.name, p.from_id INTO STRICT last, last_id FROM log_partitions() AS p WHERE p.to_id IS NULL;
    IF last_id >= log_id_at(wanted) THEN RETURN 0; END IF;
    -- It moves rows of all tenants, whoever calls it: rows that it did not see would be dropped.
    PERFORM set_config('strongroom.tenants', '*', true);
    EXECUTE format('ALTER TABLE audit_log DETACH PARTITION %I', last);
    WHILE last_id < log_id_at(wanted) LOOP
      next_id := log_id_at(date_trunc('month', log_time_of(last_id)) + interval '1 month');
      PERFORM make_log_partition('audit_log_' || to_char(log_time_of(last_id), 'YYYY_MM'), last_id, next_id);
      last_id := next_id;
      made := made + 1;
    END LOOP;
    PERFORM make_log_partition('audit_log_from_' || to_char(log_time_of(last_id), 'YYYY_MM'), last_id, NULL);
    -- The 1 is for Citus, which refuses a sub-select without a column on a distributed table.
    EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', last) INTO has_rows;
    IF has_rows THEN EXECUTE format('INSERT INTO audit_log SELECT * FROM %I', last); END IF;
    EXECUTE format('DROP TABLE %I', last);
    PERFORM set_config('strongroom.tenants', named, true);
  EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
  END;
  RETURN made;
END
$$;

-- The months of a new vault begin with the month after next: what comes before has one partition.
DO $$
DECLARE
  bound uuid;
BEGIN
  PERFORM set_config('TimeZone', 'UTC', true);
  bound := log_id_at(date_trunc('month', now()) + interval '2 months');
  PERFORM make_log_partition('audit_log_before_' || to_char(log_time_of(bound), 'YYYY_MM'), NULL, bound);
  PERFORM make_log_partition('audit_log_from_' || to_char(log_time_of(bound), 'YYYY_MM'), bound, NULL);
END
$$;

-- -------------------------------------------------------------------------------------------------------------------------------
-- Usage by the hour
-- -------------------------------------------------------------------------------------------------------------------------------

-- What requests did in an hour. Processes add to it once a minute, so a row has no MAC: it is a figure, and gives no right.
CREATE TABLE usage_hours (
  tenant_id UUID NOT NULL,
  hour TIMESTAMPTZ(3) NOT NULL,
  -- stored, used, revealed, masked, refused or failed.
  kind TEXT NOT NULL,
  -- The application that asked. Of zeros: all requests, so that a report of all reads few rows.
  application_id UUID NOT NULL,
  requests BIGINT NOT NULL,
  -- Each once in a request.
  tokens BIGINT NOT NULL,
  -- Requests that took at most so many ms, and more than the column before.
  ms_5 BIGINT NOT NULL,
  ms_10 BIGINT NOT NULL,
  ms_25 BIGINT NOT NULL,
  ms_50 BIGINT NOT NULL,
  ms_100 BIGINT NOT NULL,
  ms_250 BIGINT NOT NULL,
  ms_500 BIGINT NOT NULL,
  ms_1000 BIGINT NOT NULL,
  ms_2500 BIGINT NOT NULL,
  ms_5000 BIGINT NOT NULL,
  ms_10000 BIGINT NOT NULL,
  ms_more BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, application_id, hour, kind)
);
CREATE INDEX usage_hours_hour_idx ON usage_hours (hour);

-- -------------------------------------------------------------------------------------------------------------------------------
-- Runs of code and proxied requests
-- -------------------------------------------------------------------------------------------------------------------------------

-- What happened to each. A run that has begun has a row in begun_runs, which its end moves to runs: rows of runs are inserted once and
-- never changed.
CREATE TABLE begun_runs (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  run TEXT NOT NULL,
  mac UUID NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX begun_runs_id_idx ON begun_runs (id);

-- By month, as the audit log: ranges of ids, which begin with their time.
CREATE TABLE runs (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  kind TEXT NOT NULL,
  resource_id UUID,
  version TEXT,
  actor_id UUID,
  actor_type TEXT,
  outcome TEXT NOT NULL,
  status INTEGER,
  duration_ms INTEGER,
  cpu_ms DOUBLE PRECISION,
  error TEXT,
  line INTEGER,
  destination_host TEXT,
  destination_status INTEGER,
  trace_id TEXT,
  token_ids TEXT[],
  echoes INTEGER,
  mac UUID NOT NULL,
  PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);
CREATE INDEX runs_id_idx ON runs (id);
CREATE INDEX runs_tenant_id_kind_id_idx ON runs (tenant_id, kind, id);
CREATE INDEX runs_tenant_id_resource_id_id_idx ON runs (tenant_id, resource_id, id);
CREATE INDEX runs_tenant_id_actor_id_id_idx ON runs (tenant_id, actor_id, id);
CREATE INDEX runs_tenant_id_outcome_id_idx ON runs (tenant_id, outcome, id) WHERE outcome <> 'success';
CREATE INDEX runs_tenant_id_destination_status_id_idx ON runs (tenant_id, destination_status, id);
CREATE INDEX runs_destination_4xx_idx ON runs (tenant_id, id) WHERE destination_status >= 400 AND destination_status < 500;
-- Failures of the last hour, of all tenants, and of a resource.
CREATE INDEX runs_failures_id_idx ON runs (id, tenant_id, kind, resource_id, line, outcome)
  WHERE outcome NOT IN ('success', 'refused');
CREATE INDEX runs_failures_resource_idx ON runs (tenant_id, resource_id, id) WHERE outcome NOT IN ('success', 'refused');
CREATE INDEX runs_destination_5xx_idx ON runs (tenant_id, id) WHERE destination_status >= 500;

-- Events on their way to a webhook, written in the transaction of the change. By month, as runs.
CREATE TABLE webhook_deliveries (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  webhook_id UUID NOT NULL,
  type TEXT NOT NULL,
  -- Events of one entity are delivered in order.
  entity_id TEXT NOT NULL,
  -- What happened, as JSON: ids, the actor, the time. The MAC covers it.
  event TEXT NOT NULL,
  mac UUID NOT NULL,
  -- How often, for events that count.
  count INTEGER,
  -- The body as it was sent first, which may have a mask.
  sealed BYTEA,
  -- waiting, delivered or dead.
  state TEXT NOT NULL DEFAULT 'waiting',
  attempts INTEGER NOT NULL DEFAULT 0,
  due_at TIMESTAMPTZ(3) NOT NULL,
  -- By the clock of the database: the order within an entity.
  queued_at TIMESTAMPTZ(6) NOT NULL,
  attempted_at TIMESTAMPTZ(3),
  -- Of the last response; null where there was none.
  status INTEGER,
  -- The code of the last failure.
  error TEXT,
  PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);
CREATE INDEX webhook_deliveries_id_idx ON webhook_deliveries (id);
CREATE INDEX webhook_deliveries_tenant_id_webhook_id_id_idx ON webhook_deliveries (tenant_id, webhook_id, id);
CREATE INDEX webhook_deliveries_tenant_id_webhook_id_state_id_idx ON webhook_deliveries (tenant_id, webhook_id, state, id);
CREATE INDEX webhook_deliveries_due_idx ON webhook_deliveries (tenant_id, webhook_id, due_at) WHERE state = 'waiting';
CREATE INDEX webhook_deliveries_order_idx ON webhook_deliveries (tenant_id, webhook_id, entity_id, queued_at) WHERE state = 'waiting';

-- Forwarded requests that have an idempotency key. By month, as runs. The claim of the key is in idempotency_keys.
CREATE TABLE forwards (
  tenant_id UUID NOT NULL,
  id UUID NOT NULL,
  -- begun, sent, answered, unknown or failed.
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 1,
  -- Of the process that sends it. Null once it is over.
  claimed_until TIMESTAMPTZ(3),
  -- Set while the destination may have acted on any attempt.
  sent_at TIMESTAMPTZ(3),
  answered_at TIMESTAMPTZ(3),
  actor_id UUID NOT NULL,
  actor_type TEXT NOT NULL,
  proxy_id UUID,
  replay_of UUID,
  method TEXT NOT NULL,
  destination_host TEXT NOT NULL,
  path_digest TEXT NOT NULL,
  -- What the destination recognises a repeated request by. Null where it does not.
  repeat_digest TEXT,
  token_ids TEXT[] NOT NULL,
  -- Of the destination.
  status INTEGER,
  -- kept, not_kept or none.
  answer TEXT NOT NULL DEFAULT 'none',
  trace_id TEXT,
  -- The request, and the answer with what decides who gets it. For a day.
  sealed BYTEA,
  PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);
CREATE INDEX forwards_id_idx ON forwards (id);
CREATE INDEX forwards_sealed_idx ON forwards (id) WHERE sealed IS NOT NULL;
CREATE INDEX forwards_claimed_idx ON forwards (tenant_id, claimed_until) WHERE claimed_until IS NOT NULL;
CREATE INDEX forwards_replay_idx ON forwards (tenant_id, replay_of) WHERE replay_of IS NOT NULL;
CREATE INDEX forwards_tenant_id_state_id_idx ON forwards (tenant_id, state, id);
CREATE INDEX forwards_tenant_id_proxy_id_id_idx ON forwards (tenant_id, proxy_id, id);

-- Makes an empty partition of a table by months: no role empties one by TRUNCATE, and one of a walled table has a wall of its own.
CREATE FUNCTION make_month_partition(parent text, name text, from_id uuid, to_id uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%s) TO (%s)', name, parent,
    coalesce(quote_literal(from_id), 'MINVALUE'), coalesce(quote_literal(to_id), 'MAXVALUE'));
  EXECUTE format('REVOKE TRUNCATE ON %I FROM CURRENT_USER', name);
  IF (SELECT relforcerowsecurity FROM pg_class WHERE oid = parent::regclass) THEN
    PERFORM raise_tenant_wall(name::regclass);
  END IF;
END
$$;

-- Makes the partitions of this month and the next three, where they are missing, and joins the oldest month to the first partition
-- where both are empty. Returns how many it made and joined. The server calls it, whose role may make no tables: so it runs with the
-- rights of its owner, and takes nothing from the caller. It gives up where a lock waits, and the next call tries again.
CREATE FUNCTION keep_run_partitions() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
SET lock_timeout = '100ms' SET "TimeZone" = 'UTC' AS $$
DECLARE
  wanted constant uuid := log_id_at(date_trunc('month', now()) + interval '4 months');
  named constant text := coalesce(current_setting('strongroom.tenants', true), '');
  parent text;
  parts text[];
  bounds uuid[];
  last text;
  from_id uuid;
  next_id uuid;
  is_empty boolean;
  made integer;
  changed integer := 0;
BEGIN
  -- The number has no meaning.
  IF NOT pg_try_advisory_xact_lock(7270736900652) THEN RETURN 0; END IF;
  -- It moves rows of all tenants, whoever calls it: rows that it did not see would be dropped.
  PERFORM set_config('strongroom.tenants', '*', true);
  FOREACH parent IN ARRAY ARRAY['runs', 'webhook_deliveries', 'forwards'] LOOP
    made := 0;
    BEGIN
      LOOP
        -- Oldest first, with the lower bounds of all but the first.
        SELECT array_agg(p.name ORDER BY p.lower NULLS FIRST), array_remove(array_agg(p.lower ORDER BY p.lower NULLS FIRST), NULL)
        INTO parts, bounds FROM (
          SELECT c.relname::text AS name,
            (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([-0-9a-f]{36})''\)'))[1]::uuid AS lower
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = parent::regclass
        ) AS p;
        EXIT WHEN cardinality(parts) < 3 OR bounds[2] > log_id_at(date_trunc('month', now()));
        EXECUTE format('SELECT NOT EXISTS (SELECT 1 FROM %I) AND NOT EXISTS (SELECT 1 FROM %I)', parts[1], parts[2]) INTO is_empty;
        EXIT WHEN NOT is_empty;
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, parts[1]);
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, parts[2]);
        PERFORM make_month_partition(parent, parent || '_before_' || to_char(log_time_of(bounds[2]), 'YYYY_MM'), NULL, bounds[2]);
        -- One that had come before the lock.
        EXECUTE format('INSERT INTO %I SELECT * FROM %I UNION ALL SELECT * FROM %I', parent, parts[1], parts[2]);
        EXECUTE format('DROP TABLE %I, %I', parts[1], parts[2]);
        made := made + 1;
      END LOOP;
      last := parts[cardinality(parts)];
      from_id := bounds[cardinality(bounds)];
      IF from_id < wanted THEN
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, last);
        WHILE from_id < wanted LOOP
          next_id := log_id_at(date_trunc('month', log_time_of(from_id)) + interval '1 month');
          PERFORM make_month_partition(parent, parent || '_' || to_char(log_time_of(from_id), 'YYYY_MM'), from_id, next_id);
          from_id := next_id;
          made := made + 1;
        END LOOP;
        PERFORM make_month_partition(parent, parent || '_from_' || to_char(log_time_of(from_id), 'YYYY_MM'), from_id, NULL);
        EXECUTE format('INSERT INTO %I SELECT * FROM %I', parent, last);
        EXECUTE format('DROP TABLE %I', last);
      END IF;
    EXCEPTION WHEN lock_not_available THEN
      made := 0;
    END;
    changed := changed + made;
  END LOOP;
  PERFORM set_config('strongroom.tenants', named, true);
  RETURN changed;
END
$$;

DO $$
DECLARE
  bound uuid;
  parent text;
BEGIN
  PERFORM set_config('TimeZone', 'UTC', true);
  bound := log_id_at(date_trunc('month', now()));
  FOREACH parent IN ARRAY ARRAY['runs', 'webhook_deliveries', 'forwards'] LOOP
    PERFORM make_month_partition(parent, parent || '_before_' || to_char(log_time_of(bound), 'YYYY_MM'), NULL, bound);
    PERFORM make_month_partition(parent, parent || '_from_' || to_char(log_time_of(bound), 'YYYY_MM'), bound, NULL);
  END LOOP;
END
$$;

-- -------------------------------------------------------------------------------------------------------------------------------
-- Rights
-- -------------------------------------------------------------------------------------------------------------------------------

-- Default privileges may give roles, such as that of the server, all rights on new tables (docs/operations/database-roles.md).
DO $$
DECLARE
  given record;
BEGIN
  -- No role but a superuser changes or removes rows of the log, not even its owner.
  FOR given IN
    SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee
    FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) AS a WHERE c.oid = 'audit_log'::regclass
  LOOP
    EXECUTE 'REVOKE UPDATE, DELETE, TRUNCATE ON audit_log FROM ' || given.grantee;
  END LOOP;
  -- Neither row-level security nor a trigger of rows sees TRUNCATE. The sweep empties one table by it.
  FOR given IN
    SELECT DISTINCT c.oid::regclass AS name,
      CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee
    FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) AS a
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND a.privilege_type = 'TRUNCATE'
      AND c.relname NOT IN ('ephemeral_keys', '_prisma_migrations') AND pg_has_role(current_user, c.relowner, 'MEMBER')
  LOOP
    EXECUTE format('REVOKE TRUNCATE ON %s FROM %s', given.name, given.grantee);
  END LOOP;
  -- Who may append to the log may call what runs with the rights of its owner, with objects of this schema alone.
  EXECUTE format('ALTER FUNCTION add_log_partitions() SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION keep_run_partitions() SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION raise_tenant_wall(regclass) SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION add_log_partitions(), keep_run_partitions(), raise_tenant_wall(regclass) FROM PUBLIC;
  FOR given IN
    SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee
    FROM pg_class c, aclexplode(c.relacl) AS a WHERE c.oid = 'audit_log'::regclass AND a.privilege_type = 'INSERT'
  LOOP
    EXECUTE 'GRANT EXECUTE ON FUNCTION add_log_partitions(), keep_run_partitions(), raise_tenant_wall(regclass) TO ' || given.grantee;
  END LOOP;
END
$$;

SELECT add_log_partitions();
SELECT keep_run_partitions();
