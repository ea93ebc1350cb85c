-- find_queues: The first `_limit` (NULL: all) queues with names after `_after` that have counters or an entry in their
-- inbox: name, whether it is paused, counts and totals as JSON, and `oldest`, the seconds since the job in line that has
-- been due the longest became due, NULL if none is in line.
--
-- The oldest is searched among the first jobs of the first `_priorities` priorities, suspects apart from the others: one
-- lookup in the index of the line for each. A queue without a job in line costs none.
--
-- Where `mark_line_start` has marked a line, the search begins there, under the conditions of `lease_work`, because dead
-- index entries lie before it.
CREATE OR REPLACE FUNCTION find_queues(_now float8, _after text, _limit integer, _priorities integer)
RETURNS TABLE (queue text, is_paused boolean, counters json, oldest float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _last text;  -- the last name of the page; NULL: no bound
BEGIN
    _now := clock(_now);
    IF _limit <= 0 THEN
        RETURN;
    ELSIF _limit IS NOT NULL THEN
        SELECT known.queue INTO _last FROM (
            (SELECT DISTINCT c.queue FROM counters c WHERE c.queue > _after AND c.worker = 0 ORDER BY c.queue LIMIT _limit)
            UNION SELECT t.queue FROM tallies t WHERE t.queue > _after AND t.worker IS NULL
            UNION SELECT i.queue FROM inbox i WHERE i.queue > _after
        ) AS known ORDER BY known.queue OFFSET _limit - 1 LIMIT 1;
    END IF;
    RETURN QUERY
    SELECT q.queue, (SELECT true FROM paused p WHERE p.queue = q.queue) IS NOT NULL, q.numbers,
           CASE WHEN due.since IS NOT NULL THEN greatest(_now - due.since, 0) END
    FROM (
        SELECT each.queue, json_object_agg(each.what, each.number) AS numbers,
               sum(each.number) FILTER (WHERE each.what = 'waiting') > 0 AS has_line
        FROM (
            SELECT c.queue, c.what, sum(c.number) AS number FROM counted c
            WHERE c.queue > _after AND c.queue <= coalesce(_last, '~') AND c.worker IS NULL  -- no name has a '~'
            GROUP BY c.queue, c.what
            UNION ALL
            SELECT DISTINCT i.queue, 'inbox', 0 FROM inbox i WHERE i.queue > _after AND i.queue <= coalesce(_last, '~')
        ) AS each
        GROUP BY each.queue
    ) AS q LEFT JOIN LATERAL (
        SELECT f.priority, f.seq FROM fronts f
        WHERE q.has_line AND f.queue = q.queue AND f.until BETWEEN clock(NULL) AND clock(NULL) + 600 AND (
            SELECT true FROM live l
            WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = f.queue AND l.fence > 0 AND NOT l.suspect
              AND (l.priority, l.seq) < (f.priority, f.seq) LIMIT 1
        ) IS NULL AND (
            SELECT true FROM live l
            WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = f.queue AND NOT l.suspect
              AND (l.priority, l.seq) >= (f.priority, f.seq) LIMIT 1
        )
    ) AS front ON true LEFT JOIN LATERAL (
        WITH RECURSIVE line AS (
            SELECT first.*, 1 AS number
            FROM (VALUES (false, coalesce(front.priority, -2147483648), coalesce(front.seq, 0)), (true, -2147483648, 0))
                AS begin (suspect, priority, seq),
                LATERAL (
                    SELECT l.suspect, l.priority, l.n, l.ready_at FROM live l
                    WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = q.queue AND l.suspect = begin.suspect
                      AND (l.priority, l.seq) >= (begin.priority, begin.seq)
                    ORDER BY l.priority, l.seq LIMIT 1
                ) AS first
            UNION ALL
            SELECT next.*, line.number + 1
            FROM line, LATERAL (
                SELECT l.suspect, l.priority, l.n, l.ready_at FROM live l
                WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = q.queue AND l.suspect = line.suspect
                  AND l.priority > line.priority
                ORDER BY l.priority, l.seq LIMIT 1
            ) AS next
            WHERE line.number < _priorities
        )
        SELECT min(coalesce(line.ready_at, (SELECT j.created_at FROM jobs j WHERE j.n = line.n))) AS since FROM line
        WHERE line.number <= _priorities
    ) AS due ON q.has_line
    ORDER BY q.queue;
END
$$;
