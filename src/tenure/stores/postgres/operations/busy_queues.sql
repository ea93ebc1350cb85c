-- busy_queues: The queues that have something to do within `_ahead` seconds, and whether an expired lease or parking is
-- overdue there. For each pattern, given by the literal `_prefixes` and the regular expression `_serves`, the first
-- `_most` names; none that matches `_excludes`.
--
-- Jumps from queue to queue in the indexes of jobs that have not ended, so empty queues cost nothing. Workers with
-- patterns call it once a second; it also folds tallies when there are 100.
CREATE OR REPLACE FUNCTION busy_queues(
    _now float8, _prefixes text[], _serves text[], _excludes text, _most integer, _ahead float8
) RETURNS TABLE (queue text, overdue boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _any text := array_to_string(_serves, '|');
BEGIN
    _now := clock(_now);
    FOR _at IN 1 .. cardinality(_prefixes) LOOP
        RETURN QUERY
        WITH RECURSIVE line AS (
            (
                SELECT l.queue FROM live l
                WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue >= _prefixes[_at] ORDER BY l.queue LIMIT 1
            )
            UNION ALL
            SELECT (
                SELECT l.queue FROM live l
                WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue > line.queue ORDER BY l.queue LIMIT 1
            ) FROM line WHERE starts_with(line.queue, _prefixes[_at])
        )
        SELECT line.queue, false FROM line
        WHERE line.queue ~ _serves[_at] AND line.queue !~ _excludes
          AND (SELECT true FROM paused p WHERE p.queue = line.queue) IS NULL
        LIMIT _most;
    END LOOP;
    RETURN QUERY
    SELECT l.queue, bool_or(l.parked_until <= _now) IS TRUE
    FROM (
        SELECT l.queue, l.parked_until FROM live l
        WHERE (l.run_at IS NOT NULL OR l.parked_until IS NOT NULL OR (l.expires_at IS NOT NULL AND l.attempt = 0))
          AND least(l.run_at, l.parked_until, CASE WHEN l.attempt = 0 THEN l.expires_at END) <= _now + _ahead
          AND l.queue ~ _any AND l.queue !~ _excludes
          AND (l.parked_until IS NOT NULL OR (SELECT true FROM paused p WHERE p.queue = l.queue) IS NULL)
        ORDER BY least(l.run_at, l.parked_until, CASE WHEN l.attempt = 0 THEN l.expires_at END) LIMIT 1000
    ) AS l
    GROUP BY l.queue;
    RETURN QUERY
    WITH RECURSIVE held AS (
        (SELECT l.queue FROM live l WHERE l.state = 'running' ORDER BY l.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT l.queue FROM live l WHERE l.state = 'running' AND l.queue > held.queue ORDER BY l.queue LIMIT 1)
        FROM held WHERE held.queue IS NOT NULL
    )
    SELECT held.queue, first.lease_until <= _now
    FROM held, LATERAL (
        SELECT l.lease_until FROM live l WHERE l.state = 'running' AND l.queue = held.queue ORDER BY l.lease_until LIMIT 1
    ) AS first
    WHERE first.lease_until <= _now + _ahead AND held.queue ~ _any AND held.queue !~ _excludes;
    RETURN QUERY
    WITH RECURSIVE filled AS (
        (SELECT i.queue FROM inbox i ORDER BY i.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT i.queue FROM inbox i WHERE i.queue > filled.queue ORDER BY i.queue LIMIT 1)
        FROM filled WHERE filled.queue IS NOT NULL
    )
    SELECT filled.queue, false FROM filled WHERE filled.queue ~ _any AND filled.queue !~ _excludes;
    IF (SELECT count(*) FROM (SELECT FROM tallies LIMIT 100) AS first) = 100 THEN
        PERFORM fold_tallies();
    END IF;
END
$$;
