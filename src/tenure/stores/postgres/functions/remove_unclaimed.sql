-- remove_unclaimed: Remove those of these final jobs that still exist, are not locked and not claimed (`unclaimed`),
-- and the runs whose last steps they are. Returns how many, not counting the other steps of the runs.
CREATE OR REPLACE FUNCTION remove_unclaimed(_now float8, _ns bigint[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    _all bigint[];
BEGIN
    IF cardinality(_ns) = 0 THEN
        RETURN 0;
    END IF;
    PERFORM FROM edges WHERE dependent = ANY (_ns) ORDER BY dependent, position FOR UPDATE;
    _ns := ARRAY(SELECT n FROM ended WHERE n = ANY (_ns) ORDER BY n FOR UPDATE SKIP LOCKED);
    -- Again, because a job may have been claimed before it was locked.
    _ns := ARRAY(SELECT n FROM unclaimed(_now) WHERE n = ANY (_ns));
    _all := with_runs(_ns);
    IF cardinality(_all) > cardinality(_ns) THEN
        PERFORM FROM ended WHERE n = ANY (_all) ORDER BY n FOR UPDATE;
    END IF;
    PERFORM remove_jobs(_all);
    RETURN cardinality(_ns);
END
$$;
