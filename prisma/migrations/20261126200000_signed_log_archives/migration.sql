-- Marks of archives are signed, and bound to the digest of their rows. Marks of earlier releases have no signature.
DO $$
DECLARE
  part record;
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      ALTER TABLE "log_archives" ADD COLUMN "rows" BIGINT, ADD COLUMN "sha256" TEXT, ADD COLUMN "note" TEXT;
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
  -- Neither row-level security nor a trigger of rows sees TRUNCATE. No role has it but a superuser. The sweep empties one table by it.
  FOR part IN
    SELECT DISTINCT c.oid::regclass AS name, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee
    FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) AS a
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND a.privilege_type = 'TRUNCATE'
      AND c.relname NOT IN ('ephemeral_keys', '_prisma_migrations') AND pg_has_role(current_user, c.relowner, 'MEMBER')
  LOOP
    EXECUTE format('REVOKE TRUNCATE ON %s FROM %s', part.name, part.grantee);
  END LOOP;
END
$$;
