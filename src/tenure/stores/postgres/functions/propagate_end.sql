-- propagate_end: tell those who wait for a job, which is final by now, how it has ended; who has ended by that.
CREATE OR REPLACE FUNCTION propagate_end(_now float8, _n bigint) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN update_dependents(_now, ends_as, state, result, error) FROM end_details(_n);
END
$$;
