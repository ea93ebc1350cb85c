-- find_schedules: The schedules with these names, in the order of `_names`; or else, if `_due`, the active ones whose
-- next tick has come, the soonest first, without the first `_skip`; or else those after the name `_after`, by name. At
-- most `_limit`, unless they are named. The last row has no schedule: it says what time it is and, if `_due`, in how
-- many seconds the soonest active one is due.
--
-- Every worker asks once a second for those that are due. If none is, that is two lookups in one index.
CREATE OR REPLACE FUNCTION find_schedules(
    _now float8, _names text[], _due boolean, _skip integer, _after text, _limit integer
) RETURNS TABLE (schedule schedules, now float8, due_in float8) LANGUAGE plpgsql AS $$
DECLARE
    _soonest float8;
BEGIN
    _now := clock(_now);
    IF _names IS NOT NULL THEN
        RETURN QUERY
        SELECT s, NULL::float8, NULL::float8
        FROM unnest(_names) WITH ORDINALITY AS asked (name, at) JOIN schedules s ON s.name = ANY (ARRAY[asked.name])
        ORDER BY asked.at;
    ELSIF _due THEN
        SELECT s.next INTO _soonest FROM schedules s WHERE s.active AND s.next IS NOT NULL ORDER BY s.next, s.name LIMIT 1;
        RETURN QUERY
        SELECT s, NULL::float8, NULL::float8 FROM schedules s
        WHERE s.active AND s.next <= _now ORDER BY s.next, s.name OFFSET _skip LIMIT _limit;
    ELSE
        RETURN QUERY
        SELECT s, NULL::float8, NULL::float8 FROM schedules s WHERE s.name > _after ORDER BY s.name LIMIT _limit;
    END IF;
    RETURN QUERY SELECT NULL::schedules, _now, _soonest - _now;
END
$$;
