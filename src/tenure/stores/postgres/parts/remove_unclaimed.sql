-- remove_unclaimed: remove those of these final jobs that are still there, that nobody has locked and nobody has a claim on; how many.
CREATE OR REPLACE FUNCTION remove_unclaimed(_now float8, _ns bigint[]) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(_ns) = 0 THEN
        RETURN 0;
    END IF;
    PERFORM FROM edges WHERE dependent = ANY (_ns) ORDER BY dependent, position FOR UPDATE;
    _ns := ARRAY(SELECT n FROM ended WHERE n = ANY (_ns) ORDER BY n FOR UPDATE SKIP LOCKED);
    -- Again, for it may have been claimed before it was locked.
    _ns := ARRAY(SELECT n FROM unclaimed(_now) WHERE n = ANY (_ns));
    PERFORM remove(_ns);
    RETURN cardinality(_ns);
END
$$;
