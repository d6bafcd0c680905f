-- Several API keys of an application: a name, an end, and the networks that may use each. A lock that waits makes all others wait
-- behind it, and old servers end a query after 10 s: so it is tried for 2 s at a time.
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      ALTER TABLE "api_keys" ADD COLUMN "name" TEXT,
        ADD COLUMN "expires_at" TIMESTAMPTZ(3),
        ADD COLUMN "allowed_addresses" TEXT[] DEFAULT ARRAY[]::TEXT[],
        ADD COLUMN "created_by" UUID,
        ADD COLUMN "modified_at" TIMESTAMPTZ(3),
        ADD COLUMN "modified_by" UUID;
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;
