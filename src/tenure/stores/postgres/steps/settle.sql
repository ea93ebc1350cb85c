-- settle: apply each step under its token and give up its lease, both or neither; a verdict each, in order: ok, lease_lost,
-- not_found, or JSON that says why it is refused. NULL if all are ok.
--
-- Of each: the number and the id of the job, its token, and the state it ends in with result and error; or _steps has JSON
-- that says more: what else than an end, or which children, whose payloads are those from `first` on.
--
-- Nearly every job simply ends: all of these go in one statement, whose DELETE, in order, is the lock. What is blocked by them is looked
-- for before, to leave such a job to its place in the order, and again after it, for an edge that came in between. If not all can
-- go so, they are locked beforehand: whoever takes several takes them in order.
-- (`lease_until IS NOT NULL` is what `state = 'running'` means; said so, it would let the planner go through all that run.)
CREATE OR REPLACE FUNCTION settle(
    _now float8, _ns bigint[], _ids text[], _fences integer[], _nonces bigint[], _states text[], _results text[], _errors text[],
    _steps json[], _payloads bytea[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _verdicts text[];
    _ended integer[];
    _keyed bigint[];
    _gone bigint[];
    _unkept bigint[];
    _blockers bigint[];
    _n bigint;
    _at integer;
BEGIN
    _now := clock(_now);
    IF cardinality(_ns) > 1 AND (
        array_position(_states, NULL) IS NOT NULL OR EXISTS (SELECT FROM edges d WHERE d.blocker = ANY (_ids) AND d.open)
    ) THEN
        -- Only what is still held: a lease passes over what is locked, and would hand out what stands behind it.
        PERFORM lock_jobs(ARRAY(
            SELECT wanted.id FROM unnest(_ns, _ids, _fences, _nonces) AS wanted (n, id, fence, nonce) JOIN live l ON l.n = ANY (ARRAY[wanted.n])
            WHERE l.lease_until IS NOT NULL AND l.fence = wanted.fence AND l.nonce = wanted.nonce
        ));
    END IF;
    WITH gone AS (
        DELETE FROM live l
        USING (
            SELECT * FROM unnest(_ns, _ids, _fences, _nonces, _states, _results, _errors) WITH ORDINALITY
                AS each (n, id, fence, nonce, state, result, error, at)
            WHERE state IS NOT NULL ORDER BY n
        ) AS wanted
        WHERE l.n = ANY (ARRAY[wanted.n]) AND l.lease_until IS NOT NULL AND l.fence = wanted.fence AND l.nonce = wanted.nonce
          AND NOT EXISTS (SELECT FROM edges d WHERE d.blocker = wanted.id AND d.open)
        RETURNING wanted.at, wanted.id, wanted.state AS final, wanted.result, wanted.error AS last_error, l.*
    ), filed AS (
        INSERT INTO ended (
            n, queue, task, state, ended_at, keep_until, seq, attempt, losses, fence, misses, expires_at, worker, nonce,
            started_at, result, error
        )
        SELECT n, queue, task, final, _now, _now + keep, seq, attempt, losses, fence, misses, expires_at, worker, nonce,
               started_at, result, CASE WHEN final <> 'succeeded' THEN coalesce(last_error, error) END
        FROM gone
    ), ends AS MATERIALIZED (
        SELECT queue, worker, final, count(*) AS number FROM gone GROUP BY queue, worker, final
    ), counted AS (
        INSERT INTO tallies (queue, worker, what, number)
        SELECT ends.queue, NULL, change.what, change.number
        FROM ends, LATERAL (
            VALUES ('running', -number), (final, number), ('total_' || final, number),
                   ('total_processed', CASE WHEN final <> 'broken' THEN number END)  -- a broken job never ran
        ) AS change (what, number)
        WHERE change.number IS NOT NULL
        UNION ALL
        SELECT '', w.generation, change.what, change.number
        FROM ends JOIN workers w ON w.id = ends.worker, LATERAL (
            VALUES ('total_' || final, number), ('total_processed', CASE WHEN final <> 'broken' THEN number END)
        ) AS change (what, number)
        WHERE change.number IS NOT NULL
    )
    SELECT array_agg(at), array_agg(n), array_agg(n) FILTER (WHERE keyed), array_agg(n) FILTER (WHERE keep = 0)
    INTO _ended, _gone, _keyed, _unkept
    FROM gone;
    IF _keyed IS NOT NULL THEN
        PERFORM free_keys(_keyed, false);
    END IF;
    IF _gone IS NOT NULL THEN
        PERFORM tell_waiters(_gone, 'done');
    END IF;
    SELECT array_agg(DISTINCT n ORDER BY n) INTO _blockers
    FROM unnest(_ns, _ids) WITH ORDINALITY AS wanted (n, id, at)
    WHERE at = ANY (_ended) AND EXISTS (SELECT FROM edges d WHERE d.blocker = wanted.id AND d.open);
    FOREACH _n IN ARRAY coalesce(_blockers, '{}') LOOP
        _unkept := _unkept || follow_end(_now, _n);
    END LOOP;
    IF _unkept IS NOT NULL THEN
        PERFORM drop_unkept(_now, _unkept);
    END IF;
    IF cardinality(_ended) = cardinality(_ns) THEN
        RETURN NULL;
    END IF;
    PERFORM FROM live WHERE n = ANY (_ns) AND lease_until IS NOT NULL ORDER BY n FOR UPDATE;
    _verdicts := array_fill(NULL::text, ARRAY[cardinality(_ns)]);
    FOREACH _at IN ARRAY coalesce(_ended, '{}') LOOP
        _verdicts[_at] := 'ok';
    END LOOP;
    FOR _at IN 1 .. cardinality(_ns) LOOP
        IF _verdicts[_at] IS NULL THEN
            _verdicts[_at] := settle_one(
                _now, _ids[_at], _fences[_at], _nonces[_at], _states[_at], _results[_at], _errors[_at], _steps[_at], _payloads
            );
        END IF;
    END LOOP;
    RETURN _verdicts;
END
$$;
