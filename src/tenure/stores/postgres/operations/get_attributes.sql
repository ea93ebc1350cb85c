-- get_attributes: The attributes of a run: those with `_names`, or all if that is NULL.
CREATE OR REPLACE FUNCTION get_attributes(_id text, _names text[]) RETURNS TABLE (name text, value text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT a.name, a.value FROM jobs j JOIN attributes a ON a.run = ANY (ARRAY[j.n])
    WHERE j.id = _id AND (_names IS NULL OR a.name = ANY (_names));
END
$$;
