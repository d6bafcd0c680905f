-- A token is in one container: a column of its own, so that an index can serve paths and prefixes of paths.
-- The collation, by hand: byte order is what prefixes need, whatever the database's own is.
ALTER TABLE "tokens" ADD COLUMN "container" TEXT COLLATE "C";
UPDATE "tokens" SET "container" = "containers"[1];
ALTER TABLE "tokens" ALTER COLUMN "container" SET NOT NULL,
                     DROP COLUMN "containers";

-- One row of the log may tell of many entities of a kind: reading a hundred tokens is one deed.
ALTER TABLE "audit_log" ADD COLUMN "entity_ids" TEXT[];
UPDATE "audit_log" SET "entity_ids" = ARRAY["entity_id"];
DROP INDEX "audit_log_tenant_id_entity_type_entity_id_idx";
ALTER TABLE "audit_log" DROP COLUMN "entity_id";

-- CreateTable
CREATE TABLE "token_associations" (
    "tenant_id" UUID NOT NULL,
    "parent_id" TEXT NOT NULL,
    "child_id" TEXT NOT NULL,
    "child_created_at" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "created_by" UUID,

    CONSTRAINT "token_associations_pkey" PRIMARY KEY ("tenant_id","parent_id","child_id")
);

-- CreateTable
CREATE TABLE "token_counts" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "type" TEXT NOT NULL,
    "change" INTEGER NOT NULL,
    "last_created_at" TIMESTAMPTZ(3),

    CONSTRAINT "token_counts_pkey" PRIMARY KEY ("tenant_id","id")
);

INSERT INTO "token_counts" ("tenant_id", "id", "type", "change", "last_created_at")
SELECT "tenant_id", gen_random_uuid(), "type", count(*), max("created_at") FROM "tokens" GROUP BY "tenant_id", "type";

-- CreateTable
CREATE TABLE "idempotency_keys" (
    "tenant_id" UUID NOT NULL,
    "id" TEXT NOT NULL,
    "claim" UUID NOT NULL,
    "claimed_until" TIMESTAMPTZ(3) NOT NULL,
    "route" TEXT NOT NULL,
    "status" INTEGER,
    "sealed" BYTEA,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "idempotency_keys_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateTable
CREATE TABLE "deleted_tenants" (
    "id" UUID NOT NULL,
    "deleted_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "deleted_tenants_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "tokens_tenant_id_type_created_at_id_idx" ON "tokens"("tenant_id", "type", "created_at" DESC, "id");

-- CreateIndex
CREATE INDEX "tokens_tenant_id_container_created_at_id_idx" ON "tokens"("tenant_id", "container", "created_at" DESC, "id");

-- CreateIndex
CREATE INDEX "tokens_tenant_id_created_by_created_at_id_idx" ON "tokens"("tenant_id", "created_by", "created_at" DESC, "id");

-- CreateIndex
CREATE INDEX "tokens_tenant_id_modified_at_id_idx" ON "tokens"("tenant_id", "modified_at" DESC, "id") WHERE (modified_at IS NOT NULL);

-- CreateIndex
-- The pending list is kept short, by hand: a write that has to empty it waits for milliseconds, not for a second.
CREATE INDEX "tokens_search_digests_idx" ON "tokens" USING GIN ("search_digests") WITH (gin_pending_list_limit = 512) WHERE (search_digests IS NOT NULL);

-- CreateIndex
CREATE INDEX "token_associations_tenant_id_parent_id_child_created_at_chi_idx" ON "token_associations"("tenant_id", "parent_id", "child_created_at" DESC, "child_id");

-- CreateIndex
CREATE INDEX "token_associations_tenant_id_child_id_idx" ON "token_associations"("tenant_id", "child_id");

-- CreateIndex
CREATE INDEX "idempotency_keys_expires_at_idx" ON "idempotency_keys"("expires_at");

-- CreateIndex
CREATE INDEX "audit_log_tenant_id_entity_type_id_idx" ON "audit_log"("tenant_id", "entity_type", "id");

-- CreateIndex
CREATE INDEX "audit_log_entity_ids_idx" ON "audit_log" USING GIN ("entity_ids") WITH (gin_pending_list_limit = 512);

-- AddForeignKey
ALTER TABLE "token_associations" ADD CONSTRAINT "token_associations_tenant_id_parent_id_fkey" FOREIGN KEY ("tenant_id", "parent_id") REFERENCES "tokens"("tenant_id", "id") ON DELETE CASCADE ON UPDATE NO ACTION;

-- AddForeignKey
ALTER TABLE "token_associations" ADD CONSTRAINT "token_associations_tenant_id_child_id_fkey" FOREIGN KEY ("tenant_id", "child_id") REFERENCES "tokens"("tenant_id", "id") ON DELETE CASCADE ON UPDATE NO ACTION;

-- The log is appended to and read, by its owner too. Where the server has a role of its own, that role is granted
-- SELECT and INSERT on it and nothing else (README, "Production").
REVOKE UPDATE, DELETE, TRUNCATE ON "audit_log" FROM CURRENT_USER;
