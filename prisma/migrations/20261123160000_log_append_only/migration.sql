-- No role but a superuser changes or removes rows of the log. An earlier migration took that from the role that migrates;
-- a server with a role of its own has it by default privileges, which gave every table alike.
DO $$
DECLARE
  grantee text;
BEGIN
  FOR grantee IN
    SELECT DISTINCT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END
    FROM pg_class, aclexplode(relacl) AS acl
    WHERE pg_class.oid = 'audit_log'::regclass AND acl.privilege_type IN ('UPDATE', 'DELETE', 'TRUNCATE')
  LOOP
    EXECUTE 'REVOKE UPDATE, DELETE, TRUNCATE ON audit_log FROM ' || grantee;
  END LOOP;
END
$$;
