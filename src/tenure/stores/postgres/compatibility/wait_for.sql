-- wait_for: what programs of layout 1 call: the records of those of these jobs that are final; the channel is told when one of the others is. Of those only the
-- id comes back, and of one that does not exist nothing.
CREATE OR REPLACE FUNCTION wait_for(_ids text[], _channel text) RETURNS SETOF records LANGUAGE plpgsql AS $$
DECLARE
    _ns bigint[];
    _waiting records;
BEGIN
    -- A job that ends meanwhile waits, and then sees that somebody waits for it. A lease does not, and does not pass it over either.
    PERFORM lock_jobs_shared(_ids);
    _ns := ARRAY(SELECT n FROM jobs WHERE id = ANY (_ids));
    INSERT INTO waiters (n, channel) SELECT n, _channel FROM live WHERE n = ANY (_ns) ON CONFLICT DO NOTHING;
    FOR _waiting.id IN SELECT j.id FROM jobs j JOIN live l ON l.n = ANY (ARRAY[j.n]) WHERE j.n = ANY (_ns) LOOP
        RETURN NEXT _waiting;
    END LOOP;
    RETURN QUERY SELECT * FROM records WHERE n = ANY (_ns) AND ended_at IS NOT NULL;
END
$$;
