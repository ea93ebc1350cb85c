-- find_run: The run with this id and its current step; no row if there is none.
CREATE OR REPLACE FUNCTION find_run(_id text) RETURNS SETOF run_found LANGUAGE plpgsql ROWS 1 AS $$
BEGIN
    RETURN QUERY SELECT * FROM describe_runs(ARRAY(SELECT n FROM jobs WHERE id = _id AND run = n));
END
$$;
