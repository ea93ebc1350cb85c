-- complete: End a job as succeeded with this result, in whatever state it is. Returns a verdict as `cancel` does. For
-- programs of layout 1.
CREATE OR REPLACE FUNCTION complete(_now float8, _id text, _result text) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN end_by_operator(clock(_now), ARRAY[_id], 'succeeded', 'completed', _result);
END
$$;
