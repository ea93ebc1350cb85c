-- free_keys: Free the unique keys of these ended jobs. A key with a window is freed only if `_all`.
CREATE OR REPLACE FUNCTION free_keys(_ns bigint[], _all boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(_ns) > 1 THEN
        PERFORM lock_keys(_ns);
    END IF;
    DELETE FROM uniques u USING jobs j
    WHERE j.n = ANY (_ns) AND j.unique_key IS NOT NULL
      AND u.task = ANY (ARRAY[j.task]) AND u.key = ANY (ARRAY[j.unique_key]) AND u.job = ANY (ARRAY[j.id])
      AND (u.until IS NULL OR _all);
END
$$;
