-- watch_jobs: What these ids mean: `final` is the number of the job if it is final, else NULL, and the channel is
-- notified, with the id in `asked`, when it becomes so. An id that does not exist has no row.
CREATE OR REPLACE FUNCTION watch_jobs(_ids text[], _channel text) RETURNS TABLE (asked text, final bigint) LANGUAGE plpgsql AS $$
BEGIN
    -- A transaction that ends one of the jobs waits for this one, and then sees the waiter. Leases neither wait nor skip.
    PERFORM lock_jobs_shared(_ids);
    INSERT INTO waiters (n, channel)
    SELECT m.own, _channel FROM resolve_ids(_ids) m JOIN live l ON l.n = ANY (ARRAY[m.n]) ON CONFLICT DO NOTHING;
    RETURN QUERY SELECT m.id, e.n FROM resolve_ids(_ids) m LEFT JOIN ended e ON e.n = ANY (ARRAY[m.n]);
END
$$;
