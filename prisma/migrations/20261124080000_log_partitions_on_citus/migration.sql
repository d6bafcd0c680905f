-- Citus refuses a sub-select without a column on a distributed table. Nothing else of the function changes.
DO $$
BEGIN
  EXECUTE replace(pg_get_functiondef('add_log_partitions()'::regprocedure), '(SELECT FROM %I)', '(SELECT 1 FROM %I)');
END
$$;
