-- The roles of a vault's database, by psql as a superuser: `strongroom_owner` owns the tables and migrates, `strongroom_server`
-- serves. The server can append to the audit log and not change it. Run again, it gives both the passwords of the environment, and
-- hands over tables that another role made.
\set ON_ERROR_STOP on
\getenv owner_password OWNER_PASSWORD
\getenv server_password SERVER_PASSWORD

SELECT format('CREATE ROLE %I LOGIN', name) FROM (VALUES ('strongroom_owner'), ('strongroom_server')) AS wanted (name)
  WHERE name NOT IN (SELECT rolname FROM pg_roles) \gexec
ALTER ROLE strongroom_owner PASSWORD :'owner_password';
ALTER ROLE strongroom_server PASSWORD :'server_password';

GRANT USAGE, CREATE ON SCHEMA public TO strongroom_owner;
GRANT USAGE ON SCHEMA public TO strongroom_server;
ALTER DEFAULT PRIVILEGES FOR ROLE strongroom_owner IN SCHEMA public
  GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO strongroom_server;

-- A database that had one role for everything.
SELECT format('ALTER TABLE %s OWNER TO strongroom_owner', oid::regclass) FROM pg_class
  WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relowner <> 'strongroom_owner'::regrole \gexec
SELECT format('ALTER ROUTINE %s OWNER TO strongroom_owner', oid::regprocedure) FROM pg_proc
  WHERE pronamespace = 'public'::regnamespace AND proowner <> 'strongroom_owner'::regrole \gexec
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO strongroom_server;
SELECT 'REVOKE UPDATE, DELETE, TRUNCATE ON audit_log FROM strongroom_owner, strongroom_server'
  WHERE to_regclass('audit_log') IS NOT NULL \gexec
