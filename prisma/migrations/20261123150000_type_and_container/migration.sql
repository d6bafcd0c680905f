-- Lists by type and container: both may be frequent where both together are rare. The tenant is not the first column: of
-- indexes that begin with the tenant PostgreSQL takes any while the table is small, and keeps that plan as the table grows.
CREATE INDEX "tokens_type_tenant_id_container_idx" ON "tokens"("type", "tenant_id", "container");

-- Equal tokens are found by this index alone, for the same reason. Fingerprints of two tenants are never equal.
DROP INDEX "tokens_tenant_id_fingerprint_idx";
CREATE INDEX "tokens_fingerprint_tenant_id_idx" ON "tokens"("fingerprint", "tenant_id");
