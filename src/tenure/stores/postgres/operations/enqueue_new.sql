-- enqueue_new: Store jobs that have no unique key and no blockers and are no steps; or raise unique_violation, having
-- done nothing, if one of the ids exists. The caller then calls `enqueue_jobs`. Nearly every enqueue is of this kind,
-- and an INSERT without ON CONFLICT is a third faster.
CREATE OR REPLACE FUNCTION enqueue_new(_now float8, _jobs json, _payloads bytea[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _added record;
BEGIN
    _now := clock(_now);
    FOR _added IN
        WITH stored AS (
            INSERT INTO jobs (
                -- include: job_columns,
                edges
            )
            SELECT nextval('places'),
                   -- include: job_values,
                   0
            FROM new_jobs(_jobs, _payloads)
            RETURNING n, queue, task, priority, due_at, lease, expires_at, keep
        ), placed AS (
            INSERT INTO live (n, queue, task, state, priority, seq, run_at, lease, expires_at, keep, keyed)
            SELECT n, queue, task, 'waiting', priority, n, due_at, lease, expires_at, keep, false FROM stored
        ), counted AS (
            INSERT INTO tallies (queue, what, number)
            SELECT queue, CASE WHEN due_at IS NULL THEN 'waiting' ELSE 'scheduled' END, count(*) FROM stored GROUP BY 1, 2
            RETURNING queue, number
        )
        SELECT queue, number FROM counted
    LOOP
        PERFORM wake_workers(_added.queue, _added.number);
    END LOOP;
END
$$;
