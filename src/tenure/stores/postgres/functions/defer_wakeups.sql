-- defer_wakeups: this is a caller's transaction, whose end may be far: whatever it puts in line wakes workers when it commits.
CREATE OR REPLACE FUNCTION defer_wakeups() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('tenure.deferred', 'on', true);
END
$$;
