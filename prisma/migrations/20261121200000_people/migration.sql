-- CreateTable
CREATE TABLE "users" (
    "id" UUID NOT NULL,
    "address_digest" BYTEA NOT NULL,
    "password_hash" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "users_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "memberships" (
    "user_id" UUID NOT NULL,
    "tenant_id" UUID NOT NULL,
    "member_id" UUID NOT NULL,

    CONSTRAINT "memberships_pkey" PRIMARY KEY ("user_id","tenant_id")
);

-- CreateTable
CREATE TABLE "members" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "user_id" UUID NOT NULL,
    "role" TEXT NOT NULL,
    "address_digest" BYTEA NOT NULL,
    "sealed" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "created_by" UUID,
    "modified_at" TIMESTAMPTZ(3),
    "modified_by" UUID,

    CONSTRAINT "members_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateTable
CREATE TABLE "invitations" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "role" TEXT NOT NULL,
    "address_digest" BYTEA NOT NULL,
    "sealed" BYTEA NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "created_by" UUID,
    "modified_at" TIMESTAMPTZ(3),
    "modified_by" UUID,

    CONSTRAINT "invitations_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateTable
CREATE TABLE "invitation_secrets" (
    "digest" BYTEA NOT NULL,
    "tenant_id" UUID NOT NULL,
    "invitation_id" UUID NOT NULL,

    CONSTRAINT "invitation_secrets_pkey" PRIMARY KEY ("digest")
);

-- CreateTable
CREATE TABLE "sessions" (
    "digest" BYTEA NOT NULL,
    "tenant_id" UUID NOT NULL,
    "member_id" UUID NOT NULL,
    "user_id" UUID NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "seen_at" TIMESTAMPTZ(3) NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "sessions_pkey" PRIMARY KEY ("digest")
);

-- CreateTable
CREATE TABLE "mail_outbox" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "invitation_id" UUID NOT NULL,
    "address_digest" BYTEA NOT NULL,
    "sealed" BYTEA,
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "due_at" TIMESTAMPTZ(3) NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "mail_outbox_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateTable
CREATE TABLE "attempts" (
    "digest" BYTEA NOT NULL,
    "failures" INTEGER NOT NULL,
    "ends_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "attempts_pkey" PRIMARY KEY ("digest")
);

-- CreateIndex
CREATE UNIQUE INDEX "users_address_digest_key" ON "users"("address_digest");

-- CreateIndex
CREATE INDEX "memberships_tenant_id_member_id_idx" ON "memberships"("tenant_id", "member_id");

-- CreateIndex
CREATE INDEX "members_tenant_id_created_at_id_idx" ON "members"("tenant_id", "created_at" DESC, "id");

-- CreateIndex
CREATE INDEX "members_tenant_id_address_digest_idx" ON "members"("tenant_id", "address_digest");

-- CreateIndex
CREATE UNIQUE INDEX "members_tenant_id_user_id_key" ON "members"("tenant_id", "user_id");

-- CreateIndex
CREATE UNIQUE INDEX "members_tenant_id_owner_key" ON "members"("tenant_id") WHERE (role = 'OWNER');

-- CreateIndex
CREATE INDEX "invitations_tenant_id_created_at_id_idx" ON "invitations"("tenant_id", "created_at" DESC, "id");

-- CreateIndex
CREATE INDEX "invitations_tenant_id_address_digest_idx" ON "invitations"("tenant_id", "address_digest");

-- CreateIndex
CREATE UNIQUE INDEX "invitation_secrets_tenant_id_invitation_id_key" ON "invitation_secrets"("tenant_id", "invitation_id");

-- CreateIndex
CREATE INDEX "sessions_tenant_id_member_id_idx" ON "sessions"("tenant_id", "member_id");

-- CreateIndex
CREATE INDEX "sessions_user_id_idx" ON "sessions"("user_id");

-- CreateIndex
CREATE INDEX "sessions_expires_at_idx" ON "sessions"("expires_at");

-- CreateIndex
CREATE INDEX "mail_outbox_due_at_idx" ON "mail_outbox"("due_at") WHERE (sealed IS NOT NULL);

-- CreateIndex
CREATE INDEX "mail_outbox_address_digest_created_at_idx" ON "mail_outbox"("address_digest", "created_at");

-- CreateIndex
CREATE INDEX "mail_outbox_tenant_id_created_at_idx" ON "mail_outbox"("tenant_id", "created_at");

-- CreateIndex
CREATE INDEX "mail_outbox_tenant_id_invitation_id_idx" ON "mail_outbox"("tenant_id", "invitation_id");

-- CreateIndex
CREATE INDEX "mail_outbox_created_at_idx" ON "mail_outbox"("created_at");

-- CreateIndex
CREATE INDEX "attempts_ends_at_idx" ON "attempts"("ends_at");

