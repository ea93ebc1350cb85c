-- record_end: Make one job final: its record, key, counters and waiters. Does not touch its dependents: `propagate_end`
-- does. The caller has locked it.
--
-- `_error`: of a job that succeeded, the output that it left. `_by`: the worker to count it for. `_settled`: whether
-- its holder ended it; only then its token stays known. `_successor`: the id of the next step, of a step that hands
-- over.
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
        ) END,
        _job.ready_at
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
