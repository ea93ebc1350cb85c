-- record_end: one job becomes final, with its record, key, counters and waiters; `update_dependents` tells those who are blocked by it.
-- In the place of an error a success may have left output. _by is the worker whose doing it was. Its token stays known only if this
-- has _settled it. A step that hands over has a _successor. The caller has locked it.
CREATE OR REPLACE FUNCTION record_end(
    _now float8, _n bigint, _state text, _result text, _error text, _by text DEFAULT NULL, _settled boolean DEFAULT false,
    _successor text DEFAULT NULL
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _job live;
    _over bigint[];
BEGIN
    DELETE FROM live WHERE n = _n RETURNING * INTO STRICT _job;
    INSERT INTO ended (
        -- include: ended_columns
    ) VALUES (
        _n, _job.queue, _job.task, _state, _now, CASE WHEN _successor IS NULL THEN _now + _job.keep END, _job.seq, _job.attempt,
        _job.losses, _job.fence, _job.misses, _job.expires_at, _job.worker, CASE WHEN _settled THEN _job.nonce END,
        _job.started_at, _result, CASE WHEN _state <> 'succeeded' THEN coalesce(_error, _job.error) END, _successor,
        CASE WHEN _job.state <> 'running' OR (_settled AND _state = 'succeeded' AND _error IS NULL) THEN _job.attempts ELSE add_attempt(
            _job.attempts, _job.attempt, _job.fence, _job.started_at, _now, _job.worker,
            CASE WHEN _state = 'succeeded' AND NOT _settled THEN 'completed' ELSE _state END, CASE WHEN _settled THEN _error END
        ) END
    );
    PERFORM count_move(_job.queue, counter_name(_job.state, _job.run_at), _state);
    PERFORM count_total(_state, _job.queue, _by);
    IF _successor IS NOT NULL THEN
        INSERT INTO tallies (queue, what, number) VALUES (_job.queue, 'handed', 1);
    END IF;
    _over := ended_numbers(_n, _job.run, _successor);
    IF _job.keyed THEN
        PERFORM free_keys(_over, _state = 'cancelled');
    END IF;
    PERFORM notify_waiters(_over, 'done');
END
$$;
