-- Lists by type and container: both may be frequent where both together are rare. The tenant is not the first column: of
-- indexes that begin with the tenant PostgreSQL takes any while the table is small, and keeps that plan as the table grows.
CREATE INDEX IF NOT EXISTS "tokens_type_tenant_id_container_idx" ON "tokens"("type", "tenant_id", "container");
