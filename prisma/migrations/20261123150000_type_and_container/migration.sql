-- CreateIndex
-- Lists by type and container: both may be frequent where both together are rare.
CREATE INDEX "tokens_tenant_id_type_container_idx" ON "tokens"("tenant_id", "type", "container");
