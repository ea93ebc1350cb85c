-- enqueue_jobs: Store all of these jobs, or raise: TN001 (a unique key has an owner) or TN002 (an unknown blocker),
-- with the details as JSON. Returns a row for each job, or none if every job is new and waits.
--
-- Race: two calls with the same new key or id; the second waits until the first ends. `_special`: whether any of the
-- jobs has a unique key or blockers.
CREATE OR REPLACE FUNCTION enqueue_jobs(_now float8, _jobs json, _payloads bytea[], _special boolean)
RETURNS TABLE (at integer, id text, state text, duplicate boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _holders jsonb := '{}';
    _after jsonb := '{}';
    _stored bigint[];
    _begun bigint[];
    _queues text[];
    _places text[];
    _numbers bigint[];
    _count bigint;
    _new record;
    _failed bigint[] := '{}';
BEGIN
    _now := clock(_now);
    IF _special THEN
        _holders := claim_keys(_now, _jobs, _payloads);
        _after := resolve_blockers(_jobs, _payloads, _holders);
    END IF;
    WITH stored AS (
        INSERT INTO jobs (
            -- include: job_columns,
            unique_key, unique_until, run_id, edges, if_blocker_fails, run, flow, reads
        )
        SELECT n,
               -- include: job_values,
               key, _now + key_for, run_id, coalesce(cardinality(after), 0), if_blocker_fails,
               CASE WHEN run_id = id THEN n WHEN run_id IS NOT NULL THEN (SELECT r.n FROM jobs r WHERE r.id = new.run_id) END,
               CASE WHEN run_id = id THEN flow END, reads
        FROM (
            SELECT nextval('places') AS n, each.* FROM new_jobs(_jobs, _payloads) AS each WHERE NOT (_special AND _holders ? at::text)
        ) AS new
        ON CONFLICT (id) DO NOTHING
        RETURNING n, queue, task, priority, due_at, lease, expires_at, keep, unique_key IS NOT NULL AS keyed, edges, run
    ), placed AS (
        INSERT INTO live (n, queue, task, state, priority, seq, run_at, lease, expires_at, keep, keyed, blocked_by, run)
        SELECT n, queue, task, CASE WHEN edges > 0 THEN 'blocked' ELSE 'waiting' END, priority, n, due_at, lease, expires_at,
               keep, keyed OR (run <> n AND (SELECT r.unique_key IS NOT NULL FROM jobs r WHERE r.n = stored.run)) IS TRUE, edges, run
        FROM stored
        RETURNING n, queue, state, run_at, run
    )
    SELECT array_agg(queue), array_agg(place), array_agg(number), coalesce(sum(number), 0),
           (SELECT array_agg(n) FROM placed WHERE _special), (SELECT array_agg(n) FROM placed WHERE run = n)
    INTO _queues, _places, _numbers, _count, _stored, _begun
    FROM (SELECT queue, counter_name(state, run_at) AS place, count(*) AS number FROM placed GROUP BY 1, 2) AS each;
    INSERT INTO tallies (queue, what, number) SELECT * FROM unnest(_queues, _places, _numbers);
    IF _begun IS NOT NULL THEN
        PERFORM begin_runs(_jobs, _payloads, _begun);
    END IF;
    IF _after <> '{}' THEN
        FOR _new IN
            SELECT j.n, _after -> j.id AS after FROM unnest(_stored) AS stored (n) JOIN jobs j ON j.n = ANY (ARRAY[stored.n])
            WHERE _after ? j.id ORDER BY j.n
        LOOP
            _failed := _failed || add_edges(_now, _new.n, _new.after);
        END LOOP;
    END IF;
    FOR _at IN 1 .. coalesce(cardinality(_queues), 0) LOOP
        IF _places[_at] <> 'blocked' THEN
            PERFORM wake_workers(_queues[_at], _numbers[_at]);
        END IF;
    END LOOP;
    IF _special OR _count < cardinality(_payloads) THEN
        -- Race: another call has stored a job with this id and without this key meanwhile.
        DELETE FROM uniques u USING new_jobs(_jobs, _payloads) AS new
        WHERE u.task = new.task AND u.key = new.key AND u.job = new.id AND NOT EXISTS (
            SELECT FROM jobs j WHERE j.id = new.id AND j.task = new.task AND j.unique_key = new.key
        );
        RETURN QUERY
        -- The owner of a key may have ended since and left no record.
        SELECT new.at::integer, coalesce(_holders ->> new.at::text, new.id), coalesce(l.state, e.state, 'running'),
               _holders ? new.at::text
        FROM new_jobs(_jobs, _payloads) AS new
        LEFT JOIN LATERAL resolve_ids(ARRAY[coalesce(_holders ->> new.at::text, new.id)]) m ON true
        LEFT JOIN live l ON l.n = ANY (ARRAY[m.n]) LEFT JOIN ended e ON e.n = ANY (ARRAY[m.n]);
        PERFORM remove_unkept(_now, _failed);
    END IF;
END
$$;
