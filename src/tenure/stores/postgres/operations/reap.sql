-- reap: Take up to `_limit` jobs of these queues from holders whose lease has expired; then end the parkings that are
-- over: those jobs fail, or join the line to hand over. Returns a row for each job that was taken. Workers call it once
-- a second; it also folds tallies.
--
-- Race: a job that a renewal or a settlement has locked is skipped. Each job is checked again as it is locked: one that
-- its holder has given back meanwhile would stay locked with the others, and leases would skip it.
CREATE OR REPLACE FUNCTION reap(_now float8, _queues text[], _limit integer) RETURNS SETOF reaped LANGUAGE plpgsql AS $$
DECLARE
    _queue text;
    _n bigint;
    _left integer := _limit;
BEGIN
    _now := clock(_now);
    FOREACH _queue IN ARRAY _queues LOOP
        PERFORM shorten_leases(_now, _queue, _limit);
        FOR _n IN
            SELECT n FROM live WHERE state = 'running' AND queue = _queue AND lease_until <= _now ORDER BY lease_until, seq
        LOOP
            EXIT WHEN _left = 0;
            PERFORM FROM live WHERE n = _n AND state = 'running' AND lease_until <= _now FOR UPDATE SKIP LOCKED;
            CONTINUE WHEN NOT FOUND;
            RETURN NEXT reap_job(_now, _n);
            _left := _left - 1;
        END LOOP;
    END LOOP;
    IF _left > 0 THEN
        _left := _limit;
        FOREACH _queue IN ARRAY _queues LOOP
            FOREACH _n IN ARRAY ARRAY(
                SELECT n FROM live WHERE parked_until IS NOT NULL AND queue = _queue AND parked_until <= _now
                ORDER BY parked_until, seq LIMIT _left FOR UPDATE SKIP LOCKED
            ) LOOP
                _left := _left - 1;
                -- The end of an earlier one may have ended this one, which waited for it.
                IF EXISTS (SELECT FROM live WHERE n = _n AND on_timeout IS NULL) THEN
                    PERFORM report_changes('{failed}', ARRAY[_n]);
                    PERFORM end_job(_now, _n, 'failed', NULL, 'wait timeout');
                ELSIF EXISTS (SELECT FROM live WHERE n = _n) THEN
                    PERFORM join_line(_now, _n);
                    PERFORM report_changes('{overdue}', ARRAY[_n]);
                END IF;
            END LOOP;
        END LOOP;
    END IF;
    PERFORM fold_tallies();
END
$$;
