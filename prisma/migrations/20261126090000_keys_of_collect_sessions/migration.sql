-- The API key that created a session, with which it ends. Each look-up finds the key, so sessions need no version of their own. A lock
-- that waits makes all others wait behind it, and old servers end a query after 10 s: so it is tried for 2 s at a time.
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      ALTER TABLE "collect_sessions" ADD COLUMN "key_id" TEXT;
      ALTER TABLE "applications" DROP COLUMN "sessions_version";
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;
