-- complete_with: end this very job, though its id may be a run's, as succeeded, whatever its state, with all that the step brings (as for `settle`); its
-- holder is told so and loses its token. The verdict: ok, not_found, the final state that it is in, or JSON that says why it is refused.
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
        -- What was done in this block is undone.
        GET STACKED DIAGNOSTICS _refusal = PG_EXCEPTION_DETAIL;
        PERFORM retract_reports();
        RETURN _refusal;
    END;
    RETURN 'ok';
END
$$;
