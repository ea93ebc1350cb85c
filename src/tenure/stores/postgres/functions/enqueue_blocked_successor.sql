-- enqueue_blocked_successor: the successor of a step comes to exist, and waits for jobs that have come in this very transaction: nobody else has seen
-- these, so none can have ended, and there is nothing to be looked for or held. It has no unique key. Raises unique_violation if its
-- id exists.
CREATE OR REPLACE FUNCTION enqueue_blocked_successor(_now float8, _job live, _jobs json, _payloads bytea[], _after text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _n bigint := nextval('places');
    _new record;
    _due_at float8;
BEGIN
    SELECT * INTO _new FROM new_jobs(_jobs, _payloads);
    _due_at := coalesce(_new.run_at, _now + _new.delay);
    IF _due_at <= _now THEN
        _due_at := NULL;
    END IF;
    INSERT INTO jobs (
        n, id, task, queue, payload, raw, priority, created_at, due_at, expires_at, max_attempts, max_losses, lease, keep, tags, run_id,
        edges, if_blocker_fails, run, reads
    ) VALUES (
        _n, _new.id, _new.task, _new.queue, _new.payload, coalesce(_new.raw, false), coalesce(_new.priority, 0), _now, _due_at,
        _now + _new.expires, _new.max_attempts, coalesce(_new.max_losses, 3), _new.lease, _new.keep, _new.tags, _new.run_id,
        cardinality(_after), _new.if_blocker_fails, _job.run, _new.reads
    );
    INSERT INTO live (n, queue, task, state, priority, seq, run_at, lease, expires_at, keep, keyed, blocked_by, run)
    VALUES (
        _n, _new.queue, _new.task, 'blocked', coalesce(_new.priority, 0), _n, _due_at, _new.lease, _now + _new.expires, _new.keep,
        (SELECT unique_key IS NOT NULL FROM jobs WHERE n = _job.run), cardinality(_after), _job.run
    );
    INSERT INTO edges (dependent, position, blocker)
    SELECT _n, position, id FROM unnest(_after) WITH ORDINALITY AS each (id, position);
    INSERT INTO tallies (queue, what, number) VALUES (_new.queue, 'blocked', 1);
END
$$;
