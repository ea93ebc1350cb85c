-- write_attributes: Set attributes of runs. `_at[i]` is the index in `_runs` of the run that gets `_names[i]` =
-- `_values[i]`; where that element is NULL, nothing is set.
CREATE OR REPLACE FUNCTION write_attributes(_runs bigint[], _at integer[], _names text[], _values text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO attributes (run, name, value)
    SELECT _runs[at], name, value FROM unnest(_at, _names, _values) AS each (at, name, value) WHERE _runs[at] IS NOT NULL
    ON CONFLICT (run, name) DO UPDATE SET value = excluded.value;
END
$$;
