-- quiet_queues: the empty queues after _after, up to _until if that is not NULL: the sum of the totals of each, and what is noted of it.
CREATE OR REPLACE FUNCTION quiet_queues(_after text, _until text) RETURNS TABLE (queue text, totals bigint, since float8, seen bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT e.queue, e.totals, note.since, note.totals
    FROM (
        SELECT queue, coalesce(sum(number) FILTER (WHERE starts_with(what, 'total_')), 0)::bigint AS totals
        FROM (
            SELECT queue, what, sum(number) AS number FROM counted
            WHERE queue > _after AND queue <= coalesce(_until, '~') AND worker IS NULL  -- no name has a '~'
            GROUP BY queue, what
        ) AS each
        GROUP BY queue HAVING coalesce(bool_and(number = 0) FILTER (WHERE NOT starts_with(what, 'total_')), true)
    ) AS e LEFT JOIN quiet note ON note.queue = ANY (ARRAY[e.queue])
    WHERE (SELECT true FROM paused p WHERE p.queue = e.queue) IS NULL
      AND (SELECT true FROM inbox i WHERE i.queue = e.queue LIMIT 1) IS NULL;
END
$$;
