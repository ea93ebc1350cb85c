-- walk: `walk_jobs` for programs of layout 11 and before, which search for less.
CREATE OR REPLACE FUNCTION walk(_state text, _queue text, _task text, _tag text, _limit integer, _after float8[])
RETURNS SETOF walked LANGUAGE sql ROWS 50 AS $$
    SELECT * FROM walk_jobs(
        _state, _queue, _task, _tag, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 2000, _limit, _after
    )
$$;
