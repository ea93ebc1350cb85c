-- watch_jobs: what these ids mean: the number of the job if it is final; the channel is told when one of the others is, by the id that was
-- asked for. Of one that does not exist there is no row.
CREATE OR REPLACE FUNCTION watch_jobs(_ids text[], _channel text) RETURNS TABLE (asked text, final bigint) LANGUAGE plpgsql AS $$
BEGIN
    -- A job that ends meanwhile waits, and then sees that somebody waits for it. A lease does not, and does not pass it over either.
    PERFORM lock_jobs_shared(_ids);
    INSERT INTO waiters (n, channel)
    SELECT m.own, _channel FROM resolve_ids(_ids) m JOIN live l ON l.n = ANY (ARRAY[m.n]) ON CONFLICT DO NOTHING;
    RETURN QUERY SELECT m.id, e.n FROM resolve_ids(_ids) m LEFT JOIN ended e ON e.n = ANY (ARRAY[m.n]);
END
$$;
