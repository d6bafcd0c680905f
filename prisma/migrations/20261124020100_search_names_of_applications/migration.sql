-- The names of applications as searches compare them. Null in rows of earlier versions: searches take `name` there. The lock is
-- tried for 2 s at a time, as a lock that waits makes all others wait behind it.
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      ALTER TABLE "applications" ADD COLUMN "search_name" TEXT;
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;
