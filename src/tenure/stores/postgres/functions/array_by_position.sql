-- array_by_position: Return an array of `_length` elements with `_values[i]` at index `_positions[i]`; the other
-- elements are NULL.
CREATE OR REPLACE FUNCTION array_by_position(_positions integer[], _values bigint[], _length integer) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    _found bigint[] := array_fill(NULL::bigint, ARRAY[_length]);
BEGIN
    FOR _at IN 1 .. coalesce(cardinality(_positions), 0) LOOP
        _found[_positions[_at]] := _values[_at];
    END LOOP;
    RETURN _found;
END
$$;
