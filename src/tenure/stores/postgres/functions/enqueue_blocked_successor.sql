-- enqueue_blocked_successor: Store the successor of the step `_job`, blocked by the jobs `_after`, which this
-- transaction has just stored. No other transaction has seen them, so none can have ended and nothing is looked up or
-- locked. The successor has no unique key. Raises unique_violation if its id exists.
--
-- `_jobs` and `_payloads`: the one successor, as `new_jobs` reads it.
CREATE OR REPLACE FUNCTION enqueue_blocked_successor(
    _now float8, _job live, _jobs json, _payloads bytea[], _after text[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _n bigint := nextval('places');
    _new jobs;
BEGIN
    INSERT INTO jobs (
        -- include: job_columns,
        run_id, edges, if_blocker_fails, run, reads
    )
    SELECT _n,
           -- include: job_values,
           run_id, cardinality(_after), if_blocker_fails, _job.run, reads
    FROM new_jobs(_jobs, _payloads)
    RETURNING * INTO _new;
    INSERT INTO live (n, queue, task, state, priority, seq, run_at, lease, expires_at, keep, keyed, blocked_by, run)
    VALUES (
        _n, _new.queue, _new.task, 'blocked', _new.priority, _n, _new.due_at, _new.lease, _new.expires_at, _new.keep,
        (SELECT unique_key IS NOT NULL FROM jobs WHERE n = _job.run), cardinality(_after), _job.run
    );
    INSERT INTO edges (dependent, position, blocker)
    SELECT _n, position, id FROM unnest(_after) WITH ORDINALITY AS each (id, position);
    INSERT INTO tallies (queue, what, number) VALUES (_new.queue, 'blocked', 1);
END
$$;
