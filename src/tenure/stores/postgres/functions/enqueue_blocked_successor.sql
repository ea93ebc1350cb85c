-- enqueue_blocked_successor: the successor of a step comes to exist, and waits for jobs that have come in this very transaction: nobody else has seen
-- these, so none can have ended, and there is nothing to be looked for or held. It has no unique key. Raises unique_violation if its
-- id exists.
CREATE OR REPLACE FUNCTION enqueue_blocked_successor(_now float8, _job live, _jobs json, _payloads bytea[], _after text[]) RETURNS void LANGUAGE plpgsql AS $$
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
