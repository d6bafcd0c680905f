-- CreateTable
CREATE TABLE "instance" (
    "id" INTEGER NOT NULL DEFAULT 1,
    "environment" TEXT NOT NULL,
    "wrapped_pepper" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "instance_pkey" PRIMARY KEY ("id"),
    -- One database is one vault.
    CONSTRAINT "instance_is_one" CHECK ("id" = 1)
);

-- CreateTable
CREATE TABLE "tenants" (
    "id" UUID NOT NULL,
    "name" TEXT NOT NULL,
    "owner_id" UUID,
    "settings" JSONB NOT NULL DEFAULT '{}',
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "created_by" UUID,
    "modified_at" TIMESTAMPTZ(3),
    "modified_by" UUID,

    CONSTRAINT "tenants_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "tenant_keys" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "purpose" TEXT NOT NULL,
    "wrapped" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "tenant_keys_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateTable
CREATE TABLE "applications" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "name" TEXT NOT NULL,
    "type" TEXT NOT NULL,
    "permissions" TEXT[],
    "rules" JSONB NOT NULL DEFAULT '[]',
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "created_by" UUID,
    "modified_at" TIMESTAMPTZ(3),
    "modified_by" UUID,

    CONSTRAINT "applications_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateTable
CREATE TABLE "api_keys" (
    "public_id" TEXT NOT NULL,
    "tenant_id" UUID NOT NULL,
    "application_id" UUID NOT NULL,
    "digest" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "api_keys_pkey" PRIMARY KEY ("public_id")
);

-- CreateTable
CREATE TABLE "tokens" (
    "tenant_id" UUID NOT NULL,
    "id" TEXT NOT NULL,
    "type" TEXT NOT NULL,
    "sealed" BYTEA NOT NULL,
    "fingerprint" TEXT,
    "fingerprint_expression" TEXT,
    "containers" TEXT[],
    "metadata" JSONB,
    "search_indexes" TEXT[],
    "search_digests" TEXT[],
    "expires_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "created_by" UUID,
    "modified_at" TIMESTAMPTZ(3),
    "modified_by" UUID,

    CONSTRAINT "tokens_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateTable
CREATE TABLE "token_cvcs" (
    "tenant_id" UUID NOT NULL,
    "id" TEXT NOT NULL,
    "sealed" BYTEA NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "token_cvcs_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateTable
-- UNLOGGED, by hand: its rows are in no WAL, no replica and no base backup, and a crash of the database empties it.
-- A security code sealed under a key of this table ceases to exist with its row (docs/decisions/0003-cvc.md).
CREATE UNLOGGED TABLE "ephemeral_keys" (
    "id" TEXT NOT NULL,
    "wrapped" BYTEA NOT NULL,
    "destroy_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "ephemeral_keys_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "audit_log" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "actor_id" UUID,
    "actor_type" TEXT,
    "entity_type" TEXT NOT NULL,
    "entity_id" TEXT NOT NULL,
    "operation" TEXT NOT NULL,
    "message" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "audit_log_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateIndex
CREATE INDEX "applications_tenant_id_created_at_id_idx" ON "applications"("tenant_id", "created_at" DESC, "id");

-- CreateIndex
CREATE INDEX "api_keys_tenant_id_application_id_idx" ON "api_keys"("tenant_id", "application_id");

-- CreateIndex
CREATE INDEX "tokens_tenant_id_created_at_id_idx" ON "tokens"("tenant_id", "created_at" DESC, "id");

-- CreateIndex
CREATE INDEX "tokens_tenant_id_fingerprint_idx" ON "tokens"("tenant_id", "fingerprint");

-- CreateIndex
CREATE INDEX "tokens_expires_at_idx" ON "tokens"("expires_at") WHERE (expires_at IS NOT NULL);

-- CreateIndex
CREATE INDEX "token_cvcs_expires_at_idx" ON "token_cvcs"("expires_at");

-- CreateIndex
CREATE INDEX "audit_log_tenant_id_entity_type_entity_id_idx" ON "audit_log"("tenant_id", "entity_type", "entity_id");
