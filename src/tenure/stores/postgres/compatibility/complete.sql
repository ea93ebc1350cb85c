-- complete: end a job as succeeded with this result, whatever its state; the verdict as of `cancel`. What programs of layout 1 call.
CREATE OR REPLACE FUNCTION complete(_now float8, _id text, _result text) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN end_by_operator(clock(_now), ARRAY[_id], 'succeeded', 'completed', _result);
END
$$;
