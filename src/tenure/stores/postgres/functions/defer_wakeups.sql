-- defer_wakeups: Mark this transaction as a caller's: `wake_workers` then waits for its commit, and `report_changes`
-- sends nothing.
CREATE OR REPLACE FUNCTION defer_wakeups() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('tenure.deferred', 'on', true);
END
$$;
