-- Rows of earlier versions keep disclosure NULL: those versions did not record it. All that they logged had succeeded.
-- Columns with a constant default are added without touching the rows.
ALTER TABLE "audit_log" ADD COLUMN "disclosure" TEXT,
                        ADD COLUMN "outcome" TEXT NOT NULL DEFAULT 'success',
                        ADD COLUMN "trace_id" TEXT,
                        ADD COLUMN "ip" TEXT,
                        ADD COLUMN "reactor_id" UUID,
                        ADD COLUMN "proxy_id" UUID,
                        ADD COLUMN "destination_host" TEXT,
                        ADD COLUMN "is_list" BOOLEAN NOT NULL DEFAULT false;

-- CreateIndex
CREATE INDEX "audit_log_tenant_id_actor_id_id_idx" ON "audit_log"("tenant_id", "actor_id", "id");

-- CreateIndex
CREATE INDEX "audit_log_tenant_id_operation_id_idx" ON "audit_log"("tenant_id", "operation", "id");

-- CreateIndex
-- Nearly all rows tell of success: the others are few, and found without reading those.
CREATE INDEX "audit_log_tenant_id_outcome_id_idx" ON "audit_log"("tenant_id", "outcome", "id") WHERE (outcome <> 'success'::text);
