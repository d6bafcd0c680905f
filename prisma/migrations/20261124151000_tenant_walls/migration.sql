-- Row-level security as a second wall between tenants. A statement names the tenants whose rows it may see in the setting
-- strongroom.tenants: ids divided by commas, or * for all. Without the setting it sees none. Servers of earlier versions do not
-- name them, so this makes only the function: a new vault calls it for each table at once, any other when its upgrade is over.

-- Raises the wall of a table that has tenants, with the rights of its owner: the server may call it, whose role may change no table.
-- PostgreSQL reads the setting once for a statement. CASE, so that the condition says nothing about the number of rows: that is what
-- the conditions of the statement itself say. A statement that waited for a lock computes both branches when it looks at the new
-- version of the row, so the list of ids must be one for * too.
CREATE FUNCTION raise_tenant_wall(walled regclass) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET lock_timeout = '2s' AS $$
DECLARE
  named constant text := format(
    $condition$CASE (SELECT current_setting('strongroom.tenants', true)) WHEN '*' THEN true
      ELSE %I = ANY ((SELECT string_to_array(nullif(current_setting('strongroom.tenants', true), '*'), ',')::uuid[])::uuid[]) END$condition$,
    (SELECT CASE WHEN relname IN ('tenants', 'deleted_tenants') THEN 'id' ELSE 'tenant_id' END FROM pg_class WHERE oid = walled));
  own text;
  command text;
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', walled);
  FOR own IN SELECT polname FROM pg_policy WHERE polrelid = walled AND polname IN (
    'named_tenants', 'named_tenants_insert', 'named_tenants_update', 'named_tenants_delete', 'open_reads')
  LOOP
    EXECUTE format('DROP POLICY %I ON %s', own, walled);
  END LOOP;
  -- Their searches use an index by @>. Behind a policy PostgreSQL uses it only if a superuser has marked @> as leakproof.
  IF (SELECT oid IN (to_regclass('tokens'), to_regclass('audit_log')) FROM pg_class WHERE oid = walled)
    AND NOT (SELECT proleakproof FROM pg_proc WHERE oid = 'pg_catalog.arraycontains(anyarray, anyarray)'::regprocedure)
  THEN
    EXECUTE format('CREATE POLICY open_reads ON %s FOR SELECT USING (true)', walled);
    EXECUTE format('CREATE POLICY named_tenants_insert ON %s FOR INSERT WITH CHECK (%s)', walled, named);
    EXECUTE format('CREATE POLICY named_tenants_update ON %s FOR UPDATE USING (%s)', walled, named);
    EXECUTE format('CREATE POLICY named_tenants_delete ON %s FOR DELETE USING (%s)', walled, named);
  ELSE
    EXECUTE format('CREATE POLICY named_tenants ON %s USING (%s)', walled, named);
  END IF;
END
$$;

-- A new partition of a walled log has a wall of its own.
CREATE OR REPLACE FUNCTION close_log_partition(part regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  owner oid;
  grantee oid;
BEGIN
  SELECT relowner INTO owner FROM pg_class WHERE oid = part;
  EXECUTE format('REVOKE UPDATE, DELETE, TRUNCATE ON %s FROM %I', part, pg_get_userbyid(owner));
  FOR grantee IN SELECT DISTINCT acl.grantee FROM pg_class, aclexplode(relacl) AS acl WHERE pg_class.oid = part LOOP
    IF grantee = 0 THEN
      EXECUTE format('REVOKE ALL ON %s FROM PUBLIC', part);
    ELSIF grantee <> owner THEN
      EXECUTE format('REVOKE ALL ON %s FROM %I', part, pg_get_userbyid(grantee));
    END IF;
  END LOOP;
  IF (SELECT relforcerowsecurity FROM pg_class WHERE oid = 'audit_log'::regclass) THEN
    PERFORM raise_tenant_wall(part);
  END IF;
END
$$;

DO $$
DECLARE
  grantee text;
  defined text := pg_get_functiondef('add_log_partitions()'::regprocedure);
BEGIN
  EXECUTE format('ALTER FUNCTION raise_tenant_wall(regclass) SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION raise_tenant_wall(regclass) FROM PUBLIC;
  FOR grantee IN
    SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
    FROM pg_class c, aclexplode(c.relacl) AS a WHERE c.oid = 'audit_log'::regclass AND a.privilege_type = 'INSERT'
  LOOP
    EXECUTE 'GRANT EXECUTE ON FUNCTION raise_tenant_wall(regclass) TO ' || grantee;
  END LOOP;
  -- It moves rows of all tenants, whoever calls it: rows that it did not see would be dropped.
  defined := replace(defined, '  made integer := 0;',
    E'  made integer := 0;\n  named constant text := coalesce(current_setting(''strongroom.tenants'', true), '''');');
  defined := replace(defined, '    EXECUTE format(''ALTER TABLE audit_log DETACH PARTITION %I'', last);',
    E'    PERFORM set_config(''strongroom.tenants'', ''*'', true);\n    EXECUTE format(''ALTER TABLE audit_log DETACH PARTITION %I'', last);');
  defined := replace(defined, '    EXECUTE format(''DROP TABLE %I'', last);',
    E'    EXECUTE format(''DROP TABLE %I'', last);\n    PERFORM set_config(''strongroom.tenants'', named, true);');
  IF defined !~ '''\*''' OR defined !~ 'named constant' OR defined !~ '\mnamed, true' THEN
    RAISE EXCEPTION 'add_log_partitions() is not as it was made';
  END IF;
  EXECUTE defined;
END
$$;
