-- remove_unkept: Remove those of these jobs that have ended, have a retention of 0 and are not claimed (`unclaimed`);
-- of a step the whole run.
CREATE OR REPLACE FUNCTION remove_unkept(_now float8, _ns bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _going bigint[];
BEGIN
    _going := ARRAY(
        SELECT e.n FROM unclaimed(_now) e JOIN jobs j ON j.n = ANY (ARRAY[e.n]) WHERE e.n = ANY (_ns) AND j.keep = 0
    );
    IF cardinality(_going) > 0 THEN
        PERFORM remove_jobs(with_runs(_going));
    END IF;
END
$$;
