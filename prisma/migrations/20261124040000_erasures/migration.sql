-- What was deleted, so that a restored backup does not bring it back.
CREATE TABLE "erasures" (
    "tenant_id" UUID NOT NULL,
    "id" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "made_at" TIMESTAMPTZ(3) NOT NULL,
    "erased_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "erasures_pkey" PRIMARY KEY ("tenant_id","id","kind","made_at")
);

CREATE INDEX "erasures_erased_at_idx" ON "erasures"("erased_at");

-- A trigger writes the row within the statement that deletes: it costs no round trip, and servers of earlier versions, the
-- sweep and an operator's SQL are recorded too. Of a deleted tenant one row tells all.
CREATE FUNCTION record_erasures() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_TABLE_NAME = 'tenants' THEN
    INSERT INTO erasures (tenant_id, id, kind, made_at, erased_at)
    SELECT g.id, g.id::text, TG_ARGV[0], g.created_at, now() FROM gone g ON CONFLICT DO NOTHING;
  ELSIF TG_TABLE_NAME = 'api_keys' THEN
    INSERT INTO erasures (tenant_id, id, kind, made_at, erased_at)
    SELECT g.tenant_id, g.public_id, TG_ARGV[0], g.created_at, now() FROM gone g
    WHERE EXISTS (SELECT FROM tenants t WHERE t.id = g.tenant_id) ON CONFLICT DO NOTHING;
  ELSE
    INSERT INTO erasures (tenant_id, id, kind, made_at, erased_at)
    SELECT g.tenant_id, g.id::text, TG_ARGV[0], g.created_at, now() FROM gone g
    WHERE EXISTS (SELECT FROM tenants t WHERE t.id = g.tenant_id) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END
$$;

-- A lock that waits makes all others wait behind it, and old servers end a query after 10 s: so all locks are tried for 2 s, and
-- given up together.
DO $$
DECLARE
  recorded record;
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      FOR recorded IN
        SELECT * FROM (VALUES ('tokens', 'token'), ('tenants', 'tenant'), ('applications', 'application'),
          ('api_keys', 'api_key'), ('proxies', 'proxy'), ('members', 'member'), ('invitations', 'invitation')) AS r (name, kind)
      LOOP
        EXECUTE format('CREATE TRIGGER %I AFTER DELETE ON %I REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
          EXECUTE FUNCTION record_erasures(%L)', recorded.name || '_record_erasures', recorded.name, recorded.kind);
      END LOOP;
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;
