-- Single sign-on by OpenID Connect: the provider of a tenant, the e-mail domains that the operator has bound to a tenant, the
-- accounts at providers that members sign in with, sign-ins under way, and what is kept of a session that began so.
CREATE TABLE "sso_providers" (
  "tenant_id" UUID NOT NULL,
  "id" UUID NOT NULL,
  "sealed" BYTEA NOT NULL,
  "modified_at" TIMESTAMPTZ(3) NOT NULL,

  CONSTRAINT "sso_providers_pkey" PRIMARY KEY ("tenant_id", "id")
);

CREATE TABLE "sso_domains" (
  "domain" TEXT COLLATE "C" NOT NULL,
  "tenant_id" UUID NOT NULL,
  "mac" BYTEA NOT NULL,
  "created_at" TIMESTAMPTZ(3) NOT NULL,

  CONSTRAINT "sso_domains_pkey" PRIMARY KEY ("domain")
);
CREATE INDEX "sso_domains_tenant_id_idx" ON "sso_domains" ("tenant_id");

CREATE TABLE "sso_identities" (
  "tenant_id" UUID NOT NULL,
  "digest" BYTEA NOT NULL,
  "member_id" UUID NOT NULL,
  "mac" BYTEA NOT NULL,
  "created_at" TIMESTAMPTZ(3) NOT NULL,

  CONSTRAINT "sso_identities_pkey" PRIMARY KEY ("tenant_id", "digest")
);
CREATE UNIQUE INDEX "sso_identities_tenant_id_member_id_key" ON "sso_identities" ("tenant_id", "member_id");

CREATE TABLE "sso_flows" (
  "digest" BYTEA NOT NULL,
  "tenant_id" UUID NOT NULL,
  "mac" BYTEA NOT NULL,
  "next" TEXT NOT NULL,
  "session" BYTEA,
  "created_at" TIMESTAMPTZ(3) NOT NULL,
  "expires_at" TIMESTAMPTZ(3) NOT NULL,

  CONSTRAINT "sso_flows_pkey" PRIMARY KEY ("digest")
);
CREATE INDEX "sso_flows_expires_at_idx" ON "sso_flows" ("expires_at");

CREATE TABLE "sso_sessions" (
  "digest" BYTEA NOT NULL,
  "tenant_id" UUID NOT NULL,
  "sealed" BYTEA NOT NULL,
  "expires_at" TIMESTAMPTZ(3) NOT NULL,

  CONSTRAINT "sso_sessions_pkey" PRIMARY KEY ("digest")
);
CREATE INDEX "sso_sessions_tenant_id_idx" ON "sso_sessions" ("tenant_id");
CREATE INDEX "sso_sessions_expires_at_idx" ON "sso_sessions" ("expires_at");
