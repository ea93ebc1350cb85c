-- wake_at_commit: Trigger: wake the workers that `wake_workers` left to the commit of a caller's transaction.
CREATE OR REPLACE FUNCTION wake_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('tenure.deferred', 'off', true);
    PERFORM wake_workers(NEW.queue, NEW.number);
    RETURN NULL;
END
$$;
