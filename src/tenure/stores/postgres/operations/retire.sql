-- retire: Remove a worker that is known to be dead and take up to `_limit` of its jobs. Returns a row for each.
-- `_reason`: why it died, NULL or empty if that is not known. Scans all running jobs, which are no more than there are
-- slots.
CREATE OR REPLACE FUNCTION retire(_now float8, _worker text, _limit integer, _reason text) RETURNS SETOF reaped
LANGUAGE plpgsql AS $$
DECLARE
    _n bigint;
BEGIN
    _now := clock(_now);
    FOREACH _n IN ARRAY ARRAY(
        SELECT n FROM live WHERE state = 'running' AND worker = _worker ORDER BY n LIMIT _limit FOR UPDATE
    ) LOOP
        RETURN NEXT reap_job(_now, _n, _reason);
    END LOOP;
    DELETE FROM workers WHERE id = _worker;
END
$$;
