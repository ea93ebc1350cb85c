-- remove_jobs: Delete jobs, whole runs at a time, from all tables. Open edges of other jobs to them stay open, because
-- no result will come.
CREATE OR REPLACE FUNCTION remove_jobs(_ns bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _runs bigint[];
BEGIN
    DELETE FROM edges WHERE dependent = ANY (_ns);
    PERFORM notify_waiters(_ns, 'deleted');
    PERFORM free_keys(_ns, true);
    WITH gone AS (
        DELETE FROM live WHERE n = ANY (_ns) RETURNING queue, counter_name(state, run_at) AS place
    ), forgotten AS (
        DELETE FROM ended WHERE n = ANY (_ns) RETURNING queue, state, successor
    )
    INSERT INTO tallies (queue, what, number)
    SELECT queue, place, -count(*) FROM (
        TABLE gone UNION ALL SELECT queue, state FROM forgotten
        UNION ALL SELECT queue, 'handed' FROM forgotten WHERE successor IS NOT NULL
    ) AS each GROUP BY queue, place;
    WITH gone AS (
        DELETE FROM jobs WHERE n = ANY (_ns) RETURNING n, run
    )
    SELECT array_agg(n) INTO _runs FROM gone WHERE run = n;
    IF _runs IS NOT NULL THEN
        DELETE FROM attributes WHERE run = ANY (_runs);
        DELETE FROM lookups WHERE run = ANY (_runs);
    END IF;
END
$$;
