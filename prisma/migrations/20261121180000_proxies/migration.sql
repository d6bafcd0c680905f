-- Null: not narrowed.
ALTER TABLE "applications" ADD COLUMN "allowed_hosts" TEXT[];

-- CreateTable
-- The collation of search_name, by hand: byte order is what prefixes of names need, whatever the database's own is.
CREATE TABLE "proxies" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "name" TEXT NOT NULL,
    "search_name" TEXT COLLATE "C" NOT NULL,
    "application_id" UUID,
    "require_auth" BOOLEAN NOT NULL,
    "allowed_hosts" TEXT[],
    "sealed" BYTEA NOT NULL,
    "version" INTEGER NOT NULL DEFAULT 1,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "created_by" UUID,
    "modified_at" TIMESTAMPTZ(3),
    "modified_by" UUID,

    CONSTRAINT "proxies_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateTable
CREATE TABLE "proxy_keys" (
    "digest" BYTEA NOT NULL,
    "tenant_id" UUID NOT NULL,
    "proxy_id" UUID NOT NULL,

    CONSTRAINT "proxy_keys_pkey" PRIMARY KEY ("digest")
);

-- CreateIndex
CREATE INDEX "proxies_tenant_id_created_at_id_idx" ON "proxies"("tenant_id", "created_at" DESC, "id");

-- CreateIndex
CREATE INDEX "proxies_tenant_id_search_name_created_at_id_idx" ON "proxies"("tenant_id", "search_name", "created_at" DESC, "id");

-- CreateIndex
CREATE INDEX "proxy_keys_tenant_id_proxy_id_idx" ON "proxy_keys"("tenant_id", "proxy_id");
