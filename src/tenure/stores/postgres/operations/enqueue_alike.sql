-- enqueue_alike: Do what `enqueue_new` does for jobs that differ only in id and payload, as most of one call do. Their
-- common fields are parsed once, which halves the work. `_job`: these fields, as JSON.
CREATE OR REPLACE FUNCTION enqueue_alike(_now float8, _job json, _ids text[], _payloads bytea[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _task text;
    _queue text;
    _raw boolean;
    _priority integer;
    _due_at float8;
    _expires_at float8;
    _tags text[];
    _keep float8;
    _lease float8;
    _max_attempts integer;
    _max_losses integer;
    _headers text;
BEGIN
    _now := clock(_now);
    SELECT task, queue, coalesce(raw, false), coalesce(priority, 0), coalesce(run_at, _now + delay), _now + expires, tags, keep, lease,
           max_attempts, coalesce(max_losses, 3), headers
    INTO _task, _queue, _raw, _priority, _due_at, _expires_at, _tags, _keep, _lease, _max_attempts, _max_losses, _headers
    FROM json_to_record(_job) AS (
        -- include: plain_fields
    );
    IF _due_at <= _now THEN
        _due_at := NULL;
    END IF;
    WITH stored AS (
        INSERT INTO jobs (
            -- include: job_columns,
            edges
        )
        SELECT nextval('places'), id, _task, _queue, payload, _raw, _priority, _now, _due_at, _expires_at, _max_attempts, _max_losses,
               _lease, _keep, _tags, _headers, 0
        FROM unnest(_ids, _payloads) AS each (id, payload)
        RETURNING n
    )
    INSERT INTO live (n, queue, task, state, priority, seq, run_at, lease, expires_at, keep, keyed)
    SELECT n, _queue, _task, 'waiting', _priority, n, _due_at, _lease, _expires_at, _keep, false FROM stored;
    INSERT INTO tallies (queue, what, number)
    VALUES (_queue, CASE WHEN _due_at IS NULL THEN 'waiting' ELSE 'scheduled' END, cardinality(_ids));
    PERFORM wake_workers(_queue, cardinality(_ids));
END
$$;
