-- What the server has yet to look into: empty once it has, and in new vaults.
CREATE INDEX "tokens_masked_unknown_idx" ON "tokens"("tenant_id", "id") WHERE (masked IS NULL AND type = 'token'::text);
