-- walk_runs: One page of a listing of runs, the newest first: up to `_limit` runs older than `_before`, each with how
-- many were looked at until it was found. The last row has no run: it says how many were looked at in all, at most
-- 2,000, and where that ended, if there is more.
CREATE OR REPLACE FUNCTION walk_runs(_flow text, _name text, _value text, _state text, _limit integer, _before bigint)
RETURNS SETOF run_found LANGUAGE plpgsql ROWS 50 AS $$
DECLARE
    _row run_found;
    _bound integer := CASE WHEN _state IS NULL THEN least(_limit, 2000) + 1 ELSE 2001 END;
    _ns bigint[];
    _found integer := 0;
    _looked_at integer;
BEGIN
    _before := coalesce(_before, 9223372036854775807);
    IF _name IS NOT NULL THEN
        _ns := ARRAY(
            SELECT run FROM lookups WHERE flow = _flow AND name = _name AND value = _value AND run < _before ORDER BY run DESC LIMIT _bound
        );
    ELSIF _flow IS NOT NULL THEN
        _ns := ARRAY(SELECT n FROM jobs WHERE flow = _flow AND n < _before ORDER BY n DESC LIMIT _bound);
    ELSE
        -- Jumps from flow to flow in the index, and looks at the newest runs of each.
        _ns := ARRAY(
            WITH RECURSIVE known AS (
                (SELECT flow FROM jobs WHERE flow IS NOT NULL ORDER BY flow LIMIT 1)
                UNION ALL
                SELECT (SELECT j.flow FROM jobs j WHERE j.flow > known.flow ORDER BY j.flow LIMIT 1) FROM known WHERE known.flow IS NOT NULL
            )
            SELECT each.n FROM known, LATERAL (
                SELECT j.n FROM jobs j WHERE j.flow = known.flow AND j.n < _before ORDER BY j.n DESC LIMIT _bound
            ) AS each
            ORDER BY each.n DESC LIMIT _bound
        );
    END IF;
    _looked_at := least(cardinality(_ns), 2000);
    FOR _row IN
        SELECT f.* FROM describe_runs(_ns[:2000]) AS f
        LEFT JOIN live l ON l.n = ANY (ARRAY[f.step]) LEFT JOIN ended e ON e.n = ANY (ARRAY[f.step])
        WHERE _state IS NULL OR coalesce(l.state, e.state) = _state
        ORDER BY f.looked_at LIMIT _limit
    LOOP
        _found := _found + 1;
        IF _found = _limit THEN
            _looked_at := _row.looked_at;
        END IF;
        RETURN NEXT _row;
    END LOOP;
    _row := NULL;
    _row.looked_at := _looked_at;
    _row.place := CASE WHEN cardinality(_ns) > _looked_at THEN _ns[_looked_at] END;
    RETURN NEXT _row;
END
$$;
