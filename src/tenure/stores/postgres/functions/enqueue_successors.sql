-- enqueue_successors: Store the plain successors of steps that have just ended, and wake workers. Raises
-- unique_violation if one of the ids exists.
--
-- `_runs`: the number of each run. `_keyed`: whether the run or the step before has a unique key. `_coming`: the
-- successors, as JSON.
CREATE OR REPLACE FUNCTION enqueue_successors(_now float8, _runs bigint[], _keyed boolean[], _coming json) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    _added record;
BEGIN
    FOR _added IN
        WITH coming AS MATERIALIZED (
            SELECT nextval('places') AS n, '{}'::bytea AS payload, new.*,
                   CASE WHEN coalesce(run_at, _now + delay) > _now THEN coalesce(run_at, _now + delay) END AS due_at
            FROM ROWS FROM (
                unnest(_runs), unnest(_keyed),
                json_to_recordset(_coming) AS (
                    -- include: plain_fields,
                    run_id text, reads text[]
                )
            ) AS new (run, keyed)
        ), stored AS (
            INSERT INTO jobs (
                -- include: job_columns,
                run_id, edges, run, reads
            )
            SELECT n,
                   -- include: job_values,
                   run_id, 0, run, reads
            FROM coming
        ), placed AS (
            INSERT INTO live (n, queue, task, state, priority, seq, run_at, lease, expires_at, keep, keyed, run)
            SELECT n, queue, task, 'waiting', coalesce(priority, 0), n, due_at, lease, _now + expires, keep, keyed, run FROM coming
        ), counted AS (
            INSERT INTO tallies (queue, what, number)
            SELECT queue, CASE WHEN due_at IS NULL THEN 'waiting' ELSE 'scheduled' END, count(*) FROM coming GROUP BY 1, 2
            RETURNING queue, number
        )
        SELECT queue, number FROM counted
    LOOP
        PERFORM wake_workers(_added.queue, _added.number);
    END LOOP;
END
$$;
