-- registered_workers: The registered workers by start, with the seconds since the last beat, the totals as JSON, and the order
-- that stands. A beat in the future, by a clock that was set back since, counts as silence of as many seconds.
CREATE OR REPLACE FUNCTION registered_workers(_now float8) RETURNS TABLE (
    id text, host text, pid bigint, queues text[], tasks text[], concurrency integer, lanes text[], pulse text, started_at float8,
    silent_for float8, totals json, release text, current_order text
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT w.id, w.host, w.pid, w.queues, w.tasks, w.concurrency, w.lanes, w.pulse, w.started_at, abs(clock(_now) - w.beat),
           (SELECT json_object_agg(what, number)
            FROM (SELECT what, sum(number) AS number FROM counted t WHERE t.worker = w.generation GROUP BY what) AS each),
           w.release, w.current_order
    FROM workers w ORDER BY w.started_at, w.generation;
END
$$;
