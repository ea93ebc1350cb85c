-- write_lookups: Replace lookups of runs: the values under each name that is given. `_at[i]` is the index in `_runs`; a
-- NULL value leaves none under its name.
CREATE OR REPLACE FUNCTION write_lookups(_runs bigint[], _at integer[], _names text[], _values text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(cardinality(_at), 0) = 0 THEN
        RETURN;
    END IF;
    DELETE FROM lookups l USING unnest(_at, _names) AS each (at, name)
    WHERE l.run = ANY (ARRAY[_runs[each.at]]) AND l.name = ANY (ARRAY[each.name]);
    INSERT INTO lookups (run, name, value, flow)
    SELECT j.n, each.name, each.value, j.flow
    FROM unnest(_at, _names, _values) AS each (at, name, value) JOIN jobs j ON j.n = ANY (ARRAY[_runs[each.at]])
    WHERE each.value IS NOT NULL
    ON CONFLICT DO NOTHING;
END
$$;
