-- confirm_schedules: Set `seen_at` of these schedules to now. Returns whether each exists. Locks them in the order of
-- their names.
CREATE OR REPLACE FUNCTION confirm_schedules(_now float8, _names text[]) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    _known text[];
BEGIN
    PERFORM FROM schedules WHERE name = ANY (_names) ORDER BY name FOR UPDATE;
    WITH seen AS (UPDATE schedules SET seen_at = clock(_now) WHERE name = ANY (_names) RETURNING name)
    SELECT array_agg(name) INTO _known FROM seen;
    RETURN ARRAY(
        SELECT coalesce(name = ANY (_known), false) FROM unnest(_names) WITH ORDINALITY AS asked (name, at) ORDER BY at
    );
END
$$;
