-- requeue: Apply a Requeue transition to the locked job `_job`: it waits again at its old position or at the back, now
-- or when it is due. Its token stays known until the next lease.
CREATE OR REPLACE FUNCTION requeue(_now float8, _job live, _transition json, _error text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _run_at float8 := coalesce((_transition ->> 'run_at')::float8, _now + (_transition ->> 'delay')::float8);
    _counts boolean := (_transition ->> 'counts')::boolean;
    _front boolean := (_transition ->> 'front')::boolean;
BEGIN
    IF _run_at <= _now THEN
        _run_at := NULL;
    END IF;
    UPDATE live SET
        state = 'waiting', run_at = _run_at,
        -- A job gets a new position when it joins the line; a scheduled one keeps the old position until then.
        seq = CASE WHEN _front OR _run_at IS NOT NULL THEN seq ELSE nextval('places') END,
        ready_at = CASE WHEN _front OR _run_at IS NOT NULL THEN ready_at ELSE _now END,
        attempt = CASE WHEN _counts THEN attempt ELSE attempt - 1 END,
        misses = CASE WHEN (_transition ->> 'missed')::boolean THEN misses + 1 WHEN _front THEN misses ELSE 0 END,
        error = coalesce(_error, error), lease_until = NULL, progress = NULL,
        attempts = CASE WHEN _counts THEN add_attempt(attempts, attempt, fence, started_at, _now, worker, 'retried', _error)
                        ELSE attempts END
    WHERE n = _job.n;
    PERFORM count_move(_job.queue, 'running', counter_name('waiting', _run_at));
    IF _counts THEN
        PERFORM count_total('processed', _job.queue, _job.worker);
        PERFORM count_total('retried', _job.queue, _job.worker);
    END IF;
    PERFORM wake_workers(_job.queue, 1);
END
$$;
