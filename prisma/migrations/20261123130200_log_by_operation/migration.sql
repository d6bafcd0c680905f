CREATE INDEX IF NOT EXISTS "audit_log_tenant_id_operation_id_idx" ON "audit_log"("tenant_id", "operation", "id");
