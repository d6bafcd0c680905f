-- Rows of single sign-on have a MAC under the version of their tenant, as all others that authorise. Until now a row had none, or one
-- without a version. No release has made such rows: those of earlier builds are refused, and are made anew. A lock that waits makes
-- all others wait behind it, and old servers end a query after 10 s: so all locks are tried for 2 s, and given up together.
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      ALTER TABLE "sso_providers" ADD COLUMN "mac" BYTEA;
      ALTER TABLE "sso_sessions" ADD COLUMN "mac" BYTEA;
      ALTER TABLE "sso_domains" ALTER COLUMN "mac" DROP NOT NULL;
      ALTER TABLE "sso_identities" ALTER COLUMN "mac" DROP NOT NULL;
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;
