-- purge: Delete up to `_limit` jobs of a queue that are not running, and the runs of those that are steps. Returns how
-- many, not counting the other steps. Blocked jobs first, the newest first, because they may wait for the others.
-- Locked jobs are skipped.
CREATE OR REPLACE FUNCTION purge(_now float8, _queue text, _limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    _going bigint[];
    _all bigint[];
BEGIN
    _now := clock(_now);
    _going := ARRAY(SELECT n FROM live WHERE state = 'blocked' AND queue = _queue ORDER BY seq DESC LIMIT _limit);
    -- Edges before jobs, as in `lock_jobs`.
    PERFORM FROM edges WHERE dependent = ANY (_going) ORDER BY dependent, position FOR UPDATE;
    _going := ARRAY(SELECT n FROM live WHERE n = ANY (_going) AND state = 'blocked' FOR UPDATE SKIP LOCKED);
    _going := _going || ARRAY(
        SELECT n FROM live WHERE state = 'waiting' AND run_at IS NOT NULL AND queue = _queue
        LIMIT _limit - cardinality(_going) FOR UPDATE SKIP LOCKED
    );
    _going := _going || ARRAY(
        SELECT n FROM live WHERE state = 'waiting' AND run_at IS NULL AND queue = _queue
        LIMIT _limit - cardinality(_going) FOR UPDATE SKIP LOCKED
    );
    _all := with_runs(_going);
    IF cardinality(_all) > cardinality(_going) THEN
        PERFORM FROM ended WHERE n = ANY (_all) ORDER BY n FOR UPDATE;
    END IF;
    PERFORM remove_and_notify(_now, _all);
    RETURN cardinality(_going);
END
$$;
