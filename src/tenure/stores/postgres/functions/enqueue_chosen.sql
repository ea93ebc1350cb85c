-- enqueue_chosen: Enqueue the jobs at these positions in one call of `enqueue_jobs`. None has a unique key or blockers.
-- `_jobs`: the JSON of each job. Returns the positions that are left: none.
CREATE OR REPLACE FUNCTION enqueue_chosen(_now float8, _jobs text[], _payloads bytea[], _chosen integer[]) RETURNS integer[]
LANGUAGE plpgsql AS $$
DECLARE
    _texts text[];
    _bytes bytea[];
BEGIN
    IF cardinality(_chosen) > 0 THEN
        SELECT array_agg(_jobs[place] ORDER BY at), array_agg(_payloads[place] ORDER BY at) INTO _texts, _bytes
        FROM unnest(_chosen) WITH ORDINALITY AS each (place, at);
        PERFORM FROM enqueue_jobs(_now, ('[' || array_to_string(_texts, ',') || ']')::json, _bytes, false);
    END IF;
    RETURN '{}';
END
$$;
