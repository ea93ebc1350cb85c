-- cancel: Cancel each job in whatever state it is. Returns a verdict for each: ok, not_found, or the final state that
-- the job is in. Locks all of them first.
CREATE OR REPLACE FUNCTION cancel(_now float8, _ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN end_by_operator(clock(_now), _ids, 'cancelled', 'cancelled', NULL);
END
$$;
