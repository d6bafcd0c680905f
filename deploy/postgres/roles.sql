-- The roles of a vault's database, by psql as a superuser: `strongroom_owner` owns the tables and migrates, `strongroom_server`
-- serves, `strongroom_support` reads what holds no secret. The server can append to the audit log and not change it. A role
-- whose password is not in the environment is left as it is. Run again, this gives the roles their passwords and rights, and
-- hands over tables that another role made.
\set ON_ERROR_STOP on
\set owner_password ''
\set server_password ''
\set support_password ''
\getenv owner_password OWNER_PASSWORD
\getenv server_password SERVER_PASSWORD
\getenv support_password SUPPORT_PASSWORD

SELECT format('CREATE ROLE %I LOGIN', name)
  FROM (VALUES
    ('strongroom_owner', :'owner_password'),
    ('strongroom_server', :'server_password'),
    ('strongroom_support', :'support_password')
  ) AS wanted (name, password)
  WHERE password <> '' AND to_regrole(name) IS NULL \gexec

SELECT :'owner_password' <> '' AS has_owner, :'server_password' <> '' AS has_server,
  :'support_password' <> '' AS has_support \gset

\if :has_owner
ALTER ROLE strongroom_owner PASSWORD :'owner_password';
GRANT USAGE, CREATE ON SCHEMA public TO strongroom_owner;
-- A database that had one role for everything.
SELECT format('ALTER TABLE %s OWNER TO strongroom_owner', oid::regclass) FROM pg_class
  WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relowner <> 'strongroom_owner'::regrole \gexec
SELECT format('ALTER ROUTINE %s OWNER TO strongroom_owner', oid::regprocedure) FROM pg_proc
  WHERE pronamespace = 'public'::regnamespace AND proowner <> 'strongroom_owner'::regrole \gexec
\endif

\if :has_server
ALTER ROLE strongroom_server PASSWORD :'server_password';
GRANT USAGE ON SCHEMA public TO strongroom_server;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO strongroom_server;
\endif

-- The owner's next tables. Both roles may be older than this run.
SELECT 'ALTER DEFAULT PRIVILEGES FOR ROLE strongroom_owner IN SCHEMA public
  GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO strongroom_server'
  WHERE to_regrole('strongroom_owner') IS NOT NULL AND to_regrole('strongroom_server') IS NOT NULL \gexec
SELECT format('REVOKE UPDATE, DELETE, TRUNCATE ON audit_log FROM %I', name)
  FROM (VALUES ('strongroom_owner'), ('strongroom_server')) AS wanted (name)
  WHERE to_regclass('audit_log') IS NOT NULL AND to_regrole(name) IS NOT NULL \gexec
-- The rights on audit_log are for all of its partitions. The server has none on a single one.
SELECT format('SELECT close_log_partition(%s)', inhrelid) FROM pg_inherits WHERE inhparent = to_regclass('audit_log') \gexec
SELECT 'GRANT EXECUTE ON FUNCTION add_log_partitions() TO strongroom_server'
  WHERE to_regprocedure('add_log_partitions()') IS NOT NULL AND to_regrole('strongroom_server') IS NOT NULL \gexec
SELECT 'GRANT EXECUTE ON FUNCTION keep_run_partitions() TO strongroom_server'
  WHERE to_regprocedure('keep_run_partitions()') IS NOT NULL AND to_regrole('strongroom_server') IS NOT NULL \gexec

-- Row-level security: a search uses the index of its table only where the operator is marked so. The database may be older than this.
ALTER FUNCTION pg_catalog.arraycontains(anyarray, anyarray) LEAKPROOF;
SELECT format('SELECT raise_tenant_wall(%L)', polrelid::regclass) FROM pg_policy WHERE polname = 'open_reads' \gexec
SELECT 'GRANT EXECUTE ON FUNCTION raise_tenant_wall(regclass) TO strongroom_server'
  WHERE to_regprocedure('raise_tenant_wall(regclass)') IS NOT NULL AND to_regrole('strongroom_server') IS NOT NULL \gexec

-- Support reads these tables and no other, also none that a later release adds: all others hold sealed values, keys, digests or
-- what belongs to values. A table must exist to be granted, so this runs again after the first migration.
\if :has_support
ALTER ROLE strongroom_support PASSWORD :'support_password';
GRANT USAGE ON SCHEMA public TO strongroom_support;
-- It sees the rows of all tenants.
ALTER ROLE strongroom_support SET strongroom.tenants = '*';
SELECT format('GRANT SELECT ON %I TO strongroom_support', name)
  FROM (VALUES ('tenants'), ('deleted_tenants'), ('applications'), ('official_formulas'), ('audit_log'), ('_prisma_migrations'))
    AS readable (name)
  WHERE to_regclass(name) IS NOT NULL \gexec
\endif
