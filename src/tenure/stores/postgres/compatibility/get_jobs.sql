-- get_jobs: these jobs, whole.
CREATE OR REPLACE FUNCTION get_jobs(_ids text[]) RETURNS SETOF records LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM records WHERE id = ANY (_ids);
END
$$;
