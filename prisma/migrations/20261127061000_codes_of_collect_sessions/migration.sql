-- Sessions that collect the security code of one stored card: its token, and the requests so far. A lock that waits makes all others
-- wait behind it, and old servers end a query after 10 s: so it is tried for 2 s at a time.
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      ALTER TABLE "collect_sessions" ADD COLUMN "token_id" TEXT, ADD COLUMN "tries" INTEGER NOT NULL DEFAULT 0;
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;
