-- propagate_end: Propagate the end of the final job `_n` to its dependents. Returns the numbers of the dependents that
-- failed because of it.
CREATE OR REPLACE FUNCTION propagate_end(_now float8, _n bigint) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN update_dependents(_now, ends_as, state, result, error) FROM end_details(_n);
END
$$;
