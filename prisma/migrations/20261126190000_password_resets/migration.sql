-- Links that reset a forgotten password, and the kinds of mails. A link goes with its user, also where a server of an earlier version
-- deletes it: hence the foreign key. A lock that waits makes all others wait behind it, and old servers end a query after 10 s: so
-- both are tried for 2 s at a time.
CREATE TABLE "password_resets" (
    "digest" BYTEA NOT NULL,
    "user_id" UUID NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "mac" BYTEA,

    CONSTRAINT "password_resets_pkey" PRIMARY KEY ("digest")
);

CREATE UNIQUE INDEX "password_resets_user_id_key" ON "password_resets"("user_id");

CREATE INDEX "password_resets_expires_at_idx" ON "password_resets"("expires_at");

DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      ALTER TABLE "mail_outbox" ADD COLUMN "kind" TEXT NOT NULL DEFAULT 'invitation';
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
  LOOP
    BEGIN
      ALTER TABLE "password_resets" ADD CONSTRAINT "password_resets_user_id_fkey"
        FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE NO ACTION;
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;
