-- A MAC of the columns that authorise, on each row that authorises. Null: not signed yet. A row is bound to the version of its
-- tenant or user, which every revocation raises. A lock that waits makes all others wait behind it, and old servers end a query
-- after 10 s: so all locks are tried for 2 s, and given up together.
DO $$
DECLARE
  signed record;
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      ALTER TABLE "tenants" ADD COLUMN "auth_version" INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE "users" ADD COLUMN "auth_version" INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE "applications" ADD COLUMN "sessions_version" INTEGER NOT NULL DEFAULT 1;
      FOR signed IN
        SELECT * FROM (VALUES ('tenants'), ('users'), ('applications'), ('api_keys'), ('collect_sessions'), ('reactor_formulas'),
          ('reactors'), ('proxies'), ('members'), ('invitations'), ('invitation_secrets'), ('sessions')) AS t (name)
      LOOP
        EXECUTE format('ALTER TABLE %I ADD COLUMN "mac" BYTEA', signed.name);
      END LOOP;
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;
