-- Sessions, by which a browser may create a few tokens.
CREATE TABLE "collect_sessions" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "public_id" TEXT NOT NULL,
    "digest" BYTEA NOT NULL,
    "allowed_origins" TEXT[] NOT NULL,
    "types" TEXT[] NOT NULL,
    "container" TEXT,
    "metadata" JSONB,
    "max_tokens" INTEGER NOT NULL,
    "token_ids" TEXT[] NOT NULL DEFAULT '{}',
    "return_url" TEXT,
    "page_digest" BYTEA,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "created_by" UUID NOT NULL,

    CONSTRAINT "collect_sessions_pkey" PRIMARY KEY ("tenant_id","id")
);

CREATE UNIQUE INDEX "collect_sessions_id_key" ON "collect_sessions"("id");
CREATE UNIQUE INDEX "collect_sessions_public_id_key" ON "collect_sessions"("public_id");
CREATE UNIQUE INDEX "collect_sessions_page_digest_key" ON "collect_sessions"("page_digest");
CREATE INDEX "collect_sessions_tenant_id_created_by_idx" ON "collect_sessions"("tenant_id", "created_by");
CREATE INDEX "collect_sessions_expires_at_idx" ON "collect_sessions"("expires_at");
