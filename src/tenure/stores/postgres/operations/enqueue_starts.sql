-- enqueue_starts: Do what `enqueue_new` does where some of the jobs are first steps of runs, and store the attributes
-- and lookups of these runs.
CREATE OR REPLACE FUNCTION enqueue_starts(_now float8, _jobs json, _payloads bytea[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _added record;
BEGIN
    _now := clock(_now);
    FOR _added IN
        WITH new AS MATERIALIZED (
            SELECT nextval('places') AS n, each.*,
                   CASE WHEN coalesce(run_at, _now + delay) > _now THEN coalesce(run_at, _now + delay) END AS due_at
            FROM new_jobs(_jobs, _payloads) AS each
        ), stored AS (
            INSERT INTO jobs (
                -- include: job_columns,
                run_id, edges, run, flow, reads
            )
            SELECT n,
                   -- include: job_values,
                   run_id, 0, CASE WHEN run_id IS NOT NULL THEN n END, flow, reads
            FROM new
        ), placed AS (
            INSERT INTO live (n, queue, task, state, priority, seq, run_at, lease, expires_at, keep, keyed, run)
            SELECT n, queue, task, 'waiting', coalesce(priority, 0), n, due_at, lease, _now + expires, keep, false,
                   CASE WHEN run_id IS NOT NULL THEN n END
            FROM new
        ), given AS (
            INSERT INTO attributes (run, name, value)
            SELECT n, each.key, each.value FROM new, json_each_text(attributes) AS each WHERE attributes IS NOT NULL
        ), found_by AS (
            INSERT INTO lookups (run, name, value, flow)
            SELECT DISTINCT n, each.key, one.value, flow
            FROM new, json_each(lookups) AS each, json_array_elements_text(each.value) AS one WHERE lookups IS NOT NULL
        ), counted AS (
            INSERT INTO tallies (queue, what, number)
            SELECT queue, CASE WHEN due_at IS NULL THEN 'waiting' ELSE 'scheduled' END, count(*) FROM new GROUP BY 1, 2
            RETURNING queue, number
        )
        SELECT queue, number FROM counted
    LOOP
        PERFORM wake_workers(_added.queue, _added.number);
    END LOOP;
END
$$;
