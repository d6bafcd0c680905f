-- While the lock on the log waits, all writes of log rows wait behind it. Months are made ahead of time and a try is repeated each
-- hour, so it gives up after a moment. Body, owner and rights of the function stay.
ALTER FUNCTION add_log_partitions() SET lock_timeout = '100ms';
