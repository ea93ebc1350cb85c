-- resume: Lease jobs of this queue again, and wake workers. Returns false if it was not paused.
CREATE OR REPLACE FUNCTION resume(_queue text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM paused WHERE queue = _queue;
    IF FOUND THEN
        PERFORM wake_workers(_queue, sum(number)::bigint) FROM counted
        WHERE queue = _queue AND worker IS NULL AND what IN ('waiting', 'scheduled')
        HAVING sum(number) > 0;
        RETURN true;
    END IF;
    RETURN false;
END
$$;
