-- While processes of two versions serve beside each other, one of the earlier version may give a token a mask, or take it
-- away, and its statement says nothing of the column "masked". The column is NULL then: not known, as of a row that it made.
CREATE FUNCTION forget_mask() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.masked := NULL;
  RETURN NEW;
END
$$;

-- UPDATE_TOKEN (src/db/token-sql.ts) makes the setting. A lock that waits makes all others wait behind it, and old servers
-- end a query after 10 s: so it is tried for 2 s at a time.
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      CREATE TRIGGER "tokens_forget_mask" BEFORE UPDATE OF "sealed" ON "tokens" FOR EACH ROW
      WHEN (current_setting('strongroom.sets_masked', true) IS DISTINCT FROM 'on')
      EXECUTE FUNCTION forget_mask();
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;
