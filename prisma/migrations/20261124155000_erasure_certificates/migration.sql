-- What was destroyed with each deleted tenant: signed by the vault, and without values.
CREATE TABLE "erasure_certificates" (
    "tenant_id" UUID NOT NULL,
    "deleted_at" TIMESTAMPTZ(3) NOT NULL,
    "deletion" JSONB NOT NULL,
    "rows_deleted" JSONB NOT NULL DEFAULT '{}',
    "certificate" JSONB,

    CONSTRAINT "erasure_certificates_pkey" PRIMARY KEY ("tenant_id")
);

CREATE INDEX "erasure_certificates_deleted_at_idx" ON "erasure_certificates"("deleted_at") WHERE certificate IS NULL;
