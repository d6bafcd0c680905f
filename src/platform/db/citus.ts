// Whether a database has the extension Citus. Its tables are named with their schema, so that a role that may make tables cannot
// put another one before them.

/** One row, with `has_citus`. */
export const HAS_CITUS = "SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL AS has_citus";
