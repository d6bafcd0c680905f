-- The log without readings of the log: a client that polls it writes many of these, one after the other.
CREATE INDEX IF NOT EXISTS "audit_log_without_readings_idx" ON "audit_log"("tenant_id", "id") WHERE (entity_type <> 'log'::text);
