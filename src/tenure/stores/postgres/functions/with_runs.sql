-- with_runs: These jobs, and all other steps of their runs.
CREATE OR REPLACE FUNCTION with_runs(_ns bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN _ns || ARRAY(
        SELECT DISTINCT s.n FROM jobs j JOIN jobs s ON s.run = ANY (ARRAY[j.run])
        WHERE j.n = ANY (_ns) AND j.run IS NOT NULL AND NOT s.n = ANY (_ns)
    );
END
$$;
