-- wake_at_commit: what `wake_workers` has put off until the caller's transaction commits.
CREATE OR REPLACE FUNCTION wake_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('tenure.deferred', 'off', true);
    PERFORM wake_workers(NEW.queue, NEW.number);
    RETURN NULL;
END
$$;
