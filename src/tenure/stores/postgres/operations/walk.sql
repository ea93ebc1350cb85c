-- walk: One page of a listing of jobs: the numbers of up to `_limit` jobs after the position `_after`, each with how
-- many were looked at until it was found. The last row has no number: it says how many were looked at in all, at most
-- 2,000, and the position where that ended, if there is more.
--
-- A position is three growing numbers: the part of the listing, and the two keys of an index. Of one state every queue
-- is scanned until the page is full; filters are applied on the way.
CREATE OR REPLACE FUNCTION walk(_state text, _queue text, _task text, _tag text, _limit integer, _after float8[])
RETURNS SETOF walked LANGUAGE plpgsql ROWS 50 AS $$
DECLARE
    _row walked;
    _queues text[];
    _part integer := coalesce(_after[1], 0);
    _bound integer := CASE WHEN _task IS NULL AND _tag IS NULL AND (_queue IS NULL OR _state IS NOT NULL)
                           THEN least(_limit, 2000) + 1 ELSE 2001 END;
    _ns bigint[];
    _firsts float8[];
    _seconds float8[];
    _parts integer[];
    _found integer := 0;
    _looked_at integer;
BEGIN
    _queues := CASE WHEN _queue IS NOT NULL THEN ARRAY[_queue] ELSE ARRAY(
        SELECT DISTINCT queue FROM counted WHERE worker IS NULL
    ) END;
    CASE
        WHEN _state IS NULL THEN
            SELECT array_agg(0), array_agg(-n), array_agg(0), array_agg(n) INTO _parts, _firsts, _seconds, _ns FROM (
                SELECT n FROM jobs WHERE n < coalesce(-_after[2]::bigint, 9223372036854775807) ORDER BY n DESC LIMIT _bound
            ) AS each;
        WHEN _state = 'waiting' THEN
            SELECT array_agg(part), array_agg(first), array_agg(second), array_agg(n) INTO _parts, _firsts, _seconds, _ns FROM (
                SELECT each.* FROM unnest(_queues) AS asked (queue), LATERAL (
                    (SELECT 0 AS part, priority AS first, seq AS second, n FROM live
                     WHERE queue = asked.queue AND state = 'waiting' AND run_at IS NULL AND NOT suspect AND _part = 0
                       AND (priority, seq) > (coalesce(_after[2]::integer, -2147483648), coalesce(_after[3]::bigint, -1))
                     ORDER BY priority, seq LIMIT _bound)
                    UNION ALL
                    (SELECT 0, priority, seq, n FROM live
                     WHERE queue = asked.queue AND state = 'waiting' AND run_at IS NULL AND suspect AND _part = 0
                       AND (priority, seq) > (coalesce(_after[2]::integer, -2147483648), coalesce(_after[3]::bigint, -1))
                     ORDER BY priority, seq LIMIT _bound)
                    UNION ALL
                    (SELECT 1, run_at, seq, n FROM live
                     WHERE queue = asked.queue AND state = 'waiting' AND run_at IS NOT NULL AND (run_at, seq) > (
                         CASE WHEN _part = 1 THEN _after[2] ELSE '-Infinity' END, CASE WHEN _part = 1 THEN _after[3]::bigint ELSE -1 END
                     )
                     ORDER BY run_at, seq LIMIT _bound)
                ) AS each
                ORDER BY part, first, second LIMIT _bound
            ) AS each;
        WHEN _state = 'blocked' THEN
            SELECT array_agg(0), array_agg(first), array_agg(second), array_agg(n) INTO _parts, _firsts, _seconds, _ns FROM (
                SELECT each.* FROM unnest(_queues) AS asked (queue), LATERAL (
                    SELECT priority AS first, seq AS second, n FROM live
                    WHERE queue = asked.queue AND state = 'blocked'
                      AND (priority, seq) > (coalesce(_after[2]::integer, -2147483648), coalesce(_after[3]::bigint, -1))
                    ORDER BY priority, seq LIMIT _bound
                ) AS each
                ORDER BY first, second LIMIT _bound
            ) AS each;
        WHEN _state = 'running' THEN  -- no index has this order, but they are no more than there are slots
            SELECT array_agg(0), array_agg(first), array_agg(second), array_agg(n) INTO _parts, _firsts, _seconds, _ns FROM (
                SELECT started_at AS first, n AS second, n FROM live
                WHERE queue = ANY (_queues) AND state = 'running'
                  AND (started_at, n) > (coalesce(_after[2], '-Infinity'), coalesce(_after[3]::bigint, -1))
                ORDER BY started_at, n LIMIT _bound
            ) AS each;
        WHEN _state = 'failed' AND _task IS NOT NULL THEN
            SELECT array_agg(0), array_agg(-ended_at), array_agg(-n), array_agg(n) INTO _parts, _firsts, _seconds, _ns FROM (
                SELECT ended_at, n FROM ended
                WHERE state = 'failed' AND task = _task
                  AND (ended_at, n) < (coalesce(-_after[2], 'Infinity'), coalesce(-_after[3]::bigint, 9223372036854775807))
                ORDER BY ended_at DESC, n DESC LIMIT _bound
            ) AS each;
        ELSE
            SELECT array_agg(0), array_agg(-ended_at), array_agg(-n), array_agg(n) INTO _parts, _firsts, _seconds, _ns FROM (
                SELECT each.* FROM unnest(_queues) AS asked (queue), LATERAL (
                    (SELECT ended_at, n FROM ended
                     WHERE queue = asked.queue AND state = _state AND successor IS NULL
                       AND (ended_at, n) < (coalesce(-_after[2], 'Infinity'), coalesce(-_after[3]::bigint, 9223372036854775807))
                     ORDER BY ended_at DESC, n DESC LIMIT _bound)
                    UNION ALL
                    (SELECT ended_at, n FROM ended
                     WHERE queue = asked.queue AND state = _state AND successor IS NOT NULL
                       AND (ended_at, n) < (coalesce(-_after[2], 'Infinity'), coalesce(-_after[3]::bigint, 9223372036854775807))
                     ORDER BY ended_at DESC, n DESC LIMIT _bound)
                ) AS each
                ORDER BY ended_at DESC, n DESC LIMIT _bound
            ) AS each;
    END CASE;
    _looked_at := least(coalesce(cardinality(_ns), 0), 2000);
    FOR _row.n, _row.looked_at IN
        SELECT j.n, each.at FROM unnest(_ns) WITH ORDINALITY AS each (n, at) JOIN jobs j ON j.n = ANY (ARRAY[each.n])
        WHERE each.at <= 2000 AND (_task IS NULL OR j.task = _task) AND (_tag IS NULL OR _tag = ANY (j.tags))
          AND (_queue IS NULL OR j.queue = _queue)
        ORDER BY each.at LIMIT _limit
    LOOP
        _found := _found + 1;
        IF _found = _limit THEN
            _looked_at := _row.looked_at;
        END IF;
        RETURN NEXT _row;
    END LOOP;
    _row.n := NULL;
    _row.looked_at := _looked_at;
    _row.place := CASE WHEN cardinality(_ns) > _looked_at
                  THEN ARRAY[_parts[_looked_at], _firsts[_looked_at], _seconds[_looked_at]] END;
    RETURN NEXT _row;
END
$$;
