-- complete_with: End this very job as succeeded, in whatever state it is, although its id may be a run's; with all that
-- the Finish transition brings. Its holder is notified and its token is void. Returns ok, not_found, the final state
-- that the job is in, or a JSON array that says why it is refused. A refusal changes nothing.
--
-- `_step`: JSON as `finish_json` in settling.py writes it.
CREATE OR REPLACE FUNCTION complete_with(_now float8, _id text, _result text, _step json, _payloads bytea[]) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    _n bigint;
    _job live;
    _refusal text;
BEGIN
    _now := clock(_now);
    PERFORM lock_jobs(ARRAY[_id]);
    SELECT n INTO _n FROM jobs WHERE id = _id;
    IF NOT FOUND THEN
        RETURN 'not_found';
    END IF;
    SELECT * INTO _job FROM live WHERE n = _n;
    IF NOT FOUND THEN
        RETURN (SELECT state FROM ended WHERE n = _n);
    END IF;
    BEGIN
        IF _job.state = 'running' THEN
            PERFORM notify_holder(_job.n, _job.worker, 'completed');
        END IF;
        PERFORM apply_finish(_now, _job, 'succeeded', _result, NULL, false, _step, _payloads);
    EXCEPTION WHEN SQLSTATE 'TN001' OR SQLSTATE 'TN002' OR SQLSTATE 'TN004' THEN
        -- PostgreSQL has rolled back this block.
        GET STACKED DIAGNOSTICS _refusal = PG_EXCEPTION_DETAIL;
        PERFORM retract_reports();
        RETURN _refusal;
    END;
    RETURN 'ok';
END
$$;
