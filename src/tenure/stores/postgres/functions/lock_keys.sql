-- lock_keys: Lock the unique keys that these jobs own until this transaction ends, in the order of `claim_keys`.
CREATE OR REPLACE FUNCTION lock_keys(_ns bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM jobs j
    JOIN uniques u ON u.task = ANY (ARRAY[j.task]) AND u.key = ANY (ARRAY[j.unique_key]) AND u.job = ANY (ARRAY[j.id])
    WHERE j.n = ANY (_ns) AND j.unique_key IS NOT NULL
    ORDER BY u.task, u.key FOR UPDATE OF u;
END
$$;
