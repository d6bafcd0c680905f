-- CreateIndex
CREATE INDEX "tokens_tenant_id_modified_by_idx" ON "tokens"("tenant_id", "modified_by") WHERE (modified_by IS NOT NULL);

-- By hand: rules may speak of ids that begin alike, and byte order is what serves prefixes, whatever the database's own is.
ALTER TABLE "tokens" ALTER COLUMN "id" TYPE TEXT COLLATE "C";
