-- cancel: end each job as cancelled, whatever its state; a verdict each: ok, not_found, or the final state that it is in.
CREATE OR REPLACE FUNCTION cancel(_now float8, _ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN end_by_operator(clock(_now), _ids, 'cancelled', 'cancelled', NULL);
END
$$;
