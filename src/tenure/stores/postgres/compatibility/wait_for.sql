-- wait_for: `watch_jobs` for programs of layout 1. Returns the records of those jobs that are final; of the others only
-- the id, and the channel is notified when one becomes final. An id that does not exist has no row.
CREATE OR REPLACE FUNCTION wait_for(_ids text[], _channel text) RETURNS SETOF records LANGUAGE plpgsql AS $$
DECLARE
    _ns bigint[];
    _waiting records;
BEGIN
    -- A transaction that ends one of the jobs waits for this one, and then sees the waiter. Leases neither wait nor skip.
    PERFORM lock_jobs_shared(_ids);
    _ns := ARRAY(SELECT n FROM jobs WHERE id = ANY (_ids));
    INSERT INTO waiters (n, channel) SELECT n, _channel FROM live WHERE n = ANY (_ns) ON CONFLICT DO NOTHING;
    FOR _waiting.id IN SELECT j.id FROM jobs j JOIN live l ON l.n = ANY (ARRAY[j.n]) WHERE j.n = ANY (_ns) LOOP
        RETURN NEXT _waiting;
    END LOOP;
    RETURN QUERY SELECT * FROM records WHERE n = ANY (_ns) AND ended_at IS NOT NULL;
END
$$;
