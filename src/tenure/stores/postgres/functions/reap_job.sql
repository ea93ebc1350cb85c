-- reap_job: Take a running job from a holder that is silent or gone: put it back in its position, or fail it as lost,
-- as lifecycle.after_loss says. The caller has locked it. Its error is a text that records.py reads: how often it was
-- lost, and `_reason`, if any.
CREATE OR REPLACE FUNCTION reap_job(_now float8, _n bigint, _reason text DEFAULT '') RETURNS reaped LANGUAGE plpgsql AS $$
DECLARE
    _lost reaped;
    _most integer;
    _solo boolean;
    _error text;
BEGIN
    SELECT j.id, j.queue, j.task, l.worker, l.losses + 1, j.max_losses, l.solo
    INTO _lost.id, _lost.queue, _lost.task, _lost.worker, _lost.losses, _most, _solo
    FROM live l JOIN jobs j ON j.n = l.n WHERE l.n = _n;
    _lost.failed := _most > 0 AND _lost.losses >= _most AND (_solo OR _most = 1);
    PERFORM count_total('lost', _lost.queue, _lost.worker);
    PERFORM notify_holder(_n, _lost.worker, 'taken');
    _error := rtrim('lost ' || _lost.losses || ' ' || _reason);
    UPDATE live SET
        state = 'waiting', losses = _lost.losses, suspect = _lost.losses >= 2, nonce = NULL, lease_until = NULL, progress = NULL,
        error = _error, attempts = add_attempt(attempts, attempt, fence, started_at, _now, worker, 'lost', _error)
    WHERE n = _n;
    PERFORM count_move(_lost.queue, 'running', 'waiting');
    IF _lost.failed THEN
        PERFORM end_job(_now, _n, 'failed', NULL, NULL, _lost.worker);
    ELSE
        PERFORM wake_workers(_lost.queue, 1);
    END IF;
    RETURN _lost;
END
$$;
