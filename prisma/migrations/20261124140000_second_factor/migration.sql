-- A second factor of users: the sealed secret of their device, and recovery codes. Sessions record when it was given. A lock
-- that waits makes all others wait behind it, and old servers end a query after 10 s: so it is tried for 2 s at a time.
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      ALTER TABLE "users" ADD COLUMN "second_factor" BYTEA,
        ADD COLUMN "second_factor_since" TIMESTAMPTZ(3),
        ADD COLUMN "second_factor_step" BIGINT,
        ADD COLUMN "recovery_digests" BYTEA[] DEFAULT ARRAY[]::BYTEA[];
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
  LOOP
    BEGIN
      ALTER TABLE "sessions" ADD COLUMN "second_factor_at" TIMESTAMPTZ(3);
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;
