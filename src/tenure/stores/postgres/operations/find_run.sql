-- find_run: the run of this id, with its current step.
CREATE OR REPLACE FUNCTION find_run(_id text) RETURNS SETOF run_found LANGUAGE plpgsql ROWS 1 AS $$
BEGIN
    RETURN QUERY SELECT * FROM describe_runs(ARRAY(SELECT n FROM jobs WHERE id = _id AND run = n));
END
$$;
