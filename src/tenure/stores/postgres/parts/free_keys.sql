-- free_keys: these jobs, which have ended, give their unique keys back; those held for a window only if _all.
CREATE OR REPLACE FUNCTION free_keys(_ns bigint[], _all boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM uniques u USING jobs j
    WHERE j.n = ANY (_ns) AND u.task = j.task AND u.key = j.unique_key AND u.job = j.id AND (u.until IS NULL OR _all);
END
$$;
