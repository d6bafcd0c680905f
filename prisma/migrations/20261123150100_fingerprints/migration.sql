-- Equal tokens are found by this index alone, without one that begins with the tenant. Fingerprints of two tenants are never equal.
CREATE INDEX IF NOT EXISTS "tokens_fingerprint_tenant_id_idx" ON "tokens"("fingerprint", "tenant_id");
