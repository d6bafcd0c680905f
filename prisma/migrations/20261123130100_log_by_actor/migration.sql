CREATE INDEX IF NOT EXISTS "audit_log_tenant_id_actor_id_id_idx" ON "audit_log"("tenant_id", "actor_id", "id");
