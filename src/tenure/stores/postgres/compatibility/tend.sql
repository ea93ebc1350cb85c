-- tend: `reap` and a list of queues for programs of layout 6 and before: a row for each job that was taken, then one
-- for each queue with nothing else in it.
CREATE OR REPLACE FUNCTION tend(_now float8, _queues text[], _limit integer) RETURNS SETOF reaped LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM reap(_now, _queues, _limit);
    RETURN QUERY
    SELECT NULL, known.queue, NULL, NULL, NULL::integer, NULL::boolean
    FROM (SELECT queue FROM counted WHERE worker IS NULL UNION SELECT queue FROM inbox) AS known ORDER BY known.queue;
END
$$;
