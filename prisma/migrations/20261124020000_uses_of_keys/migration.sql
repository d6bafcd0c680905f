-- When API keys were used last. A lock that waits makes all others wait behind it, and old servers end a query after 10 s: so it
-- is tried for 2 s at a time.
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      ALTER TABLE "api_keys" ADD COLUMN "last_used_at" TIMESTAMPTZ(3);
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;
