-- enqueue_plain: Store one job that has no unique key and no blockers. Returns false, having done nothing, if its id
-- exists. A third of the cost of `enqueue_jobs`: nearly every job in a caller's transaction is of this kind. Durations
-- are seconds.
CREATE OR REPLACE FUNCTION enqueue_plain(
    _now float8, _id text, _task text, _queue text, _payload bytea, _raw boolean, _priority integer, _delay float8, _run_at float8,
    _expires float8, _max_attempts integer, _max_losses integer, _lease float8, _keep float8, _tags text[], _run_id text,
    _headers text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _n bigint := nextval('places');
    _due_at float8;
BEGIN
    _now := clock(_now);
    _due_at := coalesce(_run_at, _now + _delay);
    IF _due_at <= _now THEN
        _due_at := NULL;
    END IF;
    _priority := coalesce(_priority, 0);
    INSERT INTO jobs (
        -- include: job_columns,
        run_id, edges
    ) VALUES (
        _n, _id, _task, _queue, _payload, coalesce(_raw, false), _priority, _now, _due_at, _now + _expires, _max_attempts,
        coalesce(_max_losses, 3), _lease, _keep, _tags, _headers, _run_id, 0
    ) ON CONFLICT (id) DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO live (n, queue, task, state, priority, seq, run_at, lease, expires_at, keep, keyed)
    VALUES (_n, _queue, _task, 'waiting', _priority, _n, _due_at, _lease, _now + _expires, _keep, false);
    INSERT INTO tallies (queue, what, number) VALUES (_queue, CASE WHEN _due_at IS NULL THEN 'waiting' ELSE 'scheduled' END, 1);
    PERFORM wake_workers(_queue, 1);
    RETURN true;
END
$$;
