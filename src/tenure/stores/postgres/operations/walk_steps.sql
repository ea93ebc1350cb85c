-- walk_steps: One page of the steps of a run in the order of their numbers: up to `_limit` after the number `_after`.
-- The last row has no number: it says how many are on the page, and the last of them, if there is more.
CREATE OR REPLACE FUNCTION walk_steps(_id text, _limit integer, _after bigint) RETURNS SETOF walked LANGUAGE plpgsql ROWS 50 AS $$
DECLARE
    _row walked;
    _ns bigint[] := ARRAY(
        SELECT s.n FROM jobs j JOIN jobs s ON s.run = ANY (ARRAY[j.n])
        WHERE j.id = _id AND j.run = j.n AND s.n > coalesce(_after, 0) ORDER BY s.n LIMIT _limit + 1
    );
BEGIN
    FOR _at IN 1 .. least(cardinality(_ns), _limit) LOOP
        _row.n := _ns[_at];
        _row.looked_at := _at;
        RETURN NEXT _row;
    END LOOP;
    _row.n := NULL;
    _row.looked_at := least(cardinality(_ns), _limit);
    _row.place := CASE WHEN cardinality(_ns) > _limit THEN ARRAY[_ns[_limit]::float8] END;
    RETURN NEXT _row;
END
$$;
