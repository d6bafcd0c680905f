-- The ids of tokens are compared by bytes (COLLATE "C"). A column that joins them has to have the same collation: with
-- another one PostgreSQL cannot use its index, and each raw read of several tokens scans all live security codes.
ALTER TABLE "token_cvcs" ALTER COLUMN "id" TYPE TEXT COLLATE "C";
ALTER TABLE "token_associations" ALTER COLUMN "parent_id" TYPE TEXT COLLATE "C",
                                 ALTER COLUMN "child_id" TYPE TEXT COLLATE "C";

-- Servers that run beside this migration have prepared statements that return these columns. PostgreSQL refuses to run
-- those again ("cached plan must not change result type") until the server connects anew, so their sessions end here: they
-- wait for this transaction when they come back. A request of the moment gets a 503 and can be repeated.
DO $$
BEGIN
  PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND application_name = 'strongroom' AND pid <> pg_backend_pid();
EXCEPTION WHEN insufficient_privilege THEN
  RAISE NOTICE 'the sessions of other servers belong to another role and were not ended';
END
$$;
