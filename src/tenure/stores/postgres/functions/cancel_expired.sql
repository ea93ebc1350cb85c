-- cancel_expired: Cancel up to 1,000 jobs of `_queue` that expired before their first attempt, the earliest expiry
-- first. Jobs that another transaction has locked are skipped.
CREATE OR REPLACE FUNCTION cancel_expired(_now float8, _queue text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _n bigint;
BEGIN
    FOREACH _n IN ARRAY ARRAY(
        SELECT n FROM live
        WHERE queue = _queue AND expires_at IS NOT NULL AND attempt = 0 AND expires_at <= _now AND state <> 'running'
        ORDER BY expires_at, seq LIMIT 1000 FOR UPDATE SKIP LOCKED
    ) LOOP
        -- The end of an earlier one may have ended this one, which waited for it.
        IF EXISTS (SELECT FROM live WHERE n = _n) THEN
            PERFORM report_changes('{expired}', ARRAY[_n]);
            PERFORM end_job(_now, _n, 'cancelled', NULL, 'expired');
        END IF;
    END LOOP;
END
$$;
