CREATE INDEX CONCURRENTLY "audit_log_id_idx" ON "audit_log" USING BRIN ("id") WITH (autosummarize = on);
