-- walk_jobs: One page of a listing of jobs: the numbers of up to `_limit` jobs after the position `_after`, each with how
-- many were looked at until it was found. The last row has no number: it says how many were looked at in all, at most
-- `_look`, and the position where that ended, if there is more.
--
-- A position is three growing numbers: the part of the listing, and the two keys of an index. Of one state every queue
-- is scanned until the page is full; filters are applied on the way. `_scheduled` (of waiting jobs) and `_before` (of final
-- ones, the time of the end) choose what is scanned.
--
-- The other filters read the rows: `_type` is the type of the error, `_text` a part of the payload or of the type or message
-- of the error. Both also come as records.py writes them into the JSON of an error: `_type_start` is how such JSON begins,
-- `_text_quoted` is in it. So the JSON of few errors is parsed, and of a long one `left` reads only the beginning. `_text` has
-- U+FFFD in place of NUL, as `error_parts` has; `_text_bytes` is the text itself.
CREATE OR REPLACE FUNCTION walk_jobs(
    _state text, _queue text, _task text, _tag text, _scheduled boolean, _type text, _type_start text, _text text, _text_quoted text,
    _text_bytes bytea, _worker text, _before float8, _look integer, _limit integer, _after float8[]
) RETURNS SETOF walked LANGUAGE plpgsql ROWS 50 AS $$
DECLARE
    _row walked;
    _queues text[];
    _part integer := coalesce(_after[1], 0);
    _reads_rows boolean := _type IS NOT NULL OR _text IS NOT NULL OR _worker IS NOT NULL;
    _bound integer := CASE WHEN _task IS NULL AND _tag IS NULL AND NOT _reads_rows AND (_queue IS NULL OR _state IS NOT NULL)
                           THEN least(_limit, _look) + 1 ELSE _look + 1 END;
    _end float8 := coalesce(-_after[2], _before, 'Infinity');  -- of final jobs: from which position on
    _end_n bigint := coalesce(-_after[3]::bigint, 9223372036854775807);
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
                       AND _scheduled IS NOT TRUE
                       AND (priority, seq) > (coalesce(_after[2]::integer, -2147483648), coalesce(_after[3]::bigint, -1))
                     ORDER BY priority, seq LIMIT _bound)
                    UNION ALL
                    (SELECT 0, priority, seq, n FROM live
                     WHERE queue = asked.queue AND state = 'waiting' AND run_at IS NULL AND suspect AND _part = 0
                       AND _scheduled IS NOT TRUE
                       AND (priority, seq) > (coalesce(_after[2]::integer, -2147483648), coalesce(_after[3]::bigint, -1))
                     ORDER BY priority, seq LIMIT _bound)
                    UNION ALL
                    (SELECT 1, run_at, seq, n FROM live
                     WHERE queue = asked.queue AND state = 'waiting' AND run_at IS NOT NULL AND _scheduled IS NOT FALSE AND (run_at, seq) > (
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
                  AND (ended_at, n) < (_end, _end_n)
                ORDER BY ended_at DESC, n DESC LIMIT _bound
            ) AS each;
        ELSE
            SELECT array_agg(0), array_agg(-ended_at), array_agg(-n), array_agg(n) INTO _parts, _firsts, _seconds, _ns FROM (
                SELECT each.* FROM unnest(_queues) AS asked (queue), LATERAL (
                    (SELECT ended_at, n FROM ended
                     WHERE queue = asked.queue AND state = _state AND successor IS NULL
                       AND (ended_at, n) < (_end, _end_n)
                     ORDER BY ended_at DESC, n DESC LIMIT _bound)
                    UNION ALL
                    (SELECT ended_at, n FROM ended
                     WHERE queue = asked.queue AND state = _state AND successor IS NOT NULL
                       AND (ended_at, n) < (_end, _end_n)
                     ORDER BY ended_at DESC, n DESC LIMIT _bound)
                ) AS each
                ORDER BY ended_at DESC, n DESC LIMIT _bound
            ) AS each;
    END CASE;
    _looked_at := least(coalesce(cardinality(_ns), 0), _look);
    FOR _row.n, _row.looked_at IN
        SELECT j.n, each.at FROM unnest(_ns) WITH ORDINALITY AS each (n, at) JOIN jobs j ON j.n = ANY (ARRAY[each.n])
        WHERE each.at <= _look AND (_task IS NULL OR j.task = _task) AND (_tag IS NULL OR _tag = ANY (j.tags))
          AND (_queue IS NULL OR j.queue = _queue)
          AND (NOT _reads_rows OR (
              SELECT (_worker IS NULL OR r.worker = _worker)
                     AND (_type IS NULL OR CASE WHEN left(r.error, 1) = '{' THEN left(r.error, length(_type_start)) = _type_start
                                                ELSE (SELECT type = _type FROM error_parts(r.error)) END)
                     AND (_text IS NULL OR position(_text_bytes IN j.payload) > 0 OR (
                         (left(r.error, 1) <> '{' OR position(_text_quoted IN error_head(r.error)) > 0)
                         AND (SELECT position(_text IN type) > 0 OR position(_text IN message) > 0 FROM error_parts(r.error))
                     ))
              FROM (
                  SELECT l.worker, l.error FROM live l WHERE l.n = j.n
                  UNION ALL SELECT e.worker, e.error FROM ended e WHERE e.n = j.n
              ) AS r LIMIT 1
          ))
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
