-- get_jobs: The records of the jobs with these ids. For programs of layout 2 and before.
CREATE OR REPLACE FUNCTION get_jobs(_ids text[]) RETURNS SETOF records LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM records WHERE id = ANY (_ids);
END
$$;
