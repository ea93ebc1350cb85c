-- settle_one: Apply one transition under its token. Returns the verdict, as `settle_all` does. The caller has locked
-- the job, if the lease still holds it.
CREATE OR REPLACE FUNCTION settle_one(
    _now float8, _id text, _fence integer, _nonce bigint, _state text, _result text, _error text, _transition json, _payloads bytea[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    _job live;
    _kept ended;
    _refusal text;
BEGIN
    SELECT l.* INTO _job FROM jobs j JOIN live l ON l.n = ANY (ARRAY[j.n]) WHERE j.id = _id;
    IF NOT FOUND THEN
        SELECT e.* INTO _kept FROM jobs j JOIN ended e ON e.n = ANY (ARRAY[j.n]) WHERE j.id = _id;
        IF NOT FOUND THEN
            RETURN 'not_found';
        END IF;
        _job.state := _kept.state;
        _job.fence := _kept.fence;
        _job.nonce := _kept.nonce;
    END IF;
    IF (_job.fence, _job.nonce) IS DISTINCT FROM (_fence, _nonce) THEN
        RETURN 'lease_lost';
    ELSIF _job.state <> 'running' THEN
        RETURN 'ok';  -- this token has settled it before; the answer was lost
    END IF;
    CASE _transition ->> 'kind'
        WHEN 'requeue' THEN
            PERFORM requeue(_now, _job, _transition, _error);
        WHEN 'again' THEN
            RETURN 'again';
        WHEN 'park' THEN
            UPDATE live SET
                state = 'blocked', parked_until = _now + coalesce((_transition ->> 'timeout')::float8, 'Infinity'), blocked_by = 1,
                on_timeout = _transition ->> 'on_timeout', attempt = attempt - 1, misses = 0, expires_at = NULL, lease_until = NULL, progress = NULL
            WHERE n = _job.n;
            PERFORM count_move(_job.queue, 'running', 'blocked');
        ELSE
            BEGIN
                PERFORM apply_finish(_now, _job, _state, _result, _error, true, _transition, _payloads);
            EXCEPTION WHEN SQLSTATE 'TN001' OR SQLSTATE 'TN002' OR SQLSTATE 'TN004' THEN
                -- PostgreSQL has rolled back this block.
                GET STACKED DIAGNOSTICS _refusal = PG_EXCEPTION_DETAIL;
                PERFORM retract_reports();
                RETURN _refusal;
            END;
    END CASE;
    RETURN 'ok';
END
$$;
