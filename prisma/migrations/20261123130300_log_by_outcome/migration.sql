-- Nearly all rows tell of success: the others are few, and found without reading those.
CREATE INDEX "audit_log_tenant_id_outcome_id_idx" ON "audit_log"("tenant_id", "outcome", "id") WHERE (outcome <> 'success'::text);
