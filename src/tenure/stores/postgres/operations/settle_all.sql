-- settle_all: Apply each transition under its token and give up its lease, both or neither. Returns a verdict for each,
-- in order: ok, lease_lost, not_found, a JSON array that says why it is refused, or `again`. Returns NULL if all are
-- ok.
--
-- Of each lease: number and id of the job, its token, and the state that it ends in with result and error (of a
-- success, the output that it left). Where `_states` is NULL, `_steps` has the transition as JSON: a Requeue, a Park,
-- or a Finish with what it brings (`apply_finish`).
--
-- `_runs` is NULL unless one of the jobs is a step. Of a step that ends plainly: the id of its run, and the id of its
-- plain successor, which stands in `_coming` in the same order. The attributes that successors need, the attributes
-- that are written (`_names`, `_values`) and the lookups (a NULL value: none under that name) stand in their own lists,
-- with positions in the batch. A step that cannot be settled with the others has the verdict `again`: the caller sends
-- it again as JSON.
--
-- Nearly every job ends plainly or hands over. All of these are settled by one statement, whose DELETE locks them in
-- order; if the batch has others, all are locked beforehand. Dependents are looked up after it, because no new ones can
-- come any more. New jobs of this batch cannot wait for them either, because a job that a new one waits for is sent as
-- JSON. The rest is done in the order of the batch.
--
-- (`lease_until IS NOT NULL` means the same as `state = 'running'`, but the latter would let the planner scan all
-- running jobs.)
CREATE OR REPLACE FUNCTION settle_all(
    _now float8, _ns bigint[], _ids text[], _fences integer[], _nonces bigint[], _states text[], _results text[], _errors text[],
    _steps json[], _payloads bytea[], _runs text[], _successors text[], _coming json, _needed_by integer[], _needs text[],
    _written_by integer[], _names text[], _values text[], _found_by integer[], _found_names text[], _found_values text[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _held bigint[];
    _lacking integer[];
    _ended integer[];
    _run_of bigint[];
    _over bigint[];
    _run_ends integer[];
    _ended_runs bigint[];
    _keyed bigint[];
    _unkept bigint[];
    _handing integer[];
    _handed_runs bigint[];
    _handed_keyed boolean[];
    _blocking text[];
    _verdicts text[];
BEGIN
    _now := clock(_now);
    IF cardinality(_ns) > 1 AND array_position(_states, NULL) IS NOT NULL THEN
        -- Only jobs that are still held: leases skip a locked job, and would lease the one behind it first.
        _held := ARRAY(
            SELECT wanted.n FROM unnest(_ns, _fences, _nonces) AS wanted (n, fence, nonce) JOIN live l ON l.n = ANY (ARRAY[wanted.n])
            WHERE l.lease_until IS NOT NULL AND l.fence = wanted.fence AND l.nonce = wanted.nonce
        );
        PERFORM FROM live WHERE n = ANY (_held) ORDER BY n FOR UPDATE;
        PERFORM lock_keys(_held || ARRAY(SELECT run FROM live WHERE n = ANY (_held) AND run <> n AND keyed));
    END IF;
    IF cardinality(_needs) > 0 THEN
        SELECT array_agg(needed.at) INTO _lacking FROM unnest(_needed_by, _needs) AS needed (at, name)
        WHERE (
            SELECT true FROM live l JOIN attributes a ON a.run = ANY (ARRAY[l.run]) WHERE l.n = _ns[needed.at] AND a.name = needed.name
        ) IS NULL;
    END IF;
    WITH gone AS (
        DELETE FROM live l
        USING (
            SELECT * FROM unnest(_ns, _ids, _fences, _nonces, _states, _results, _errors, _successors) WITH ORDINALITY
                AS each (n, id, fence, nonce, state, result, error, successor, at)
            WHERE state IS NOT NULL ORDER BY n, at  -- of two settlements of one job the first ends it
        ) AS wanted
        WHERE l.n = ANY (ARRAY[wanted.n]) AND l.lease_until IS NOT NULL AND l.fence = wanted.fence AND l.nonce = wanted.nonce
          AND (_lacking IS NULL OR wanted.at <> ALL (_lacking))
        RETURNING wanted.at, wanted.id, wanted.state AS final, wanted.result, wanted.error AS last_error,
                  wanted.successor, l.*
    ), filed AS (
        INSERT INTO ended (
            -- include: ended_columns
        )
        SELECT n, queue, task, final, _now, CASE WHEN successor IS NULL THEN _now + keep END, seq, attempt, losses, fence, misses,
               expires_at, worker, nonce, started_at, result, CASE WHEN final <> 'succeeded' THEN coalesce(last_error, error) END,
               successor,
               CASE WHEN final = 'succeeded' AND last_error IS NULL THEN attempts
                    ELSE add_attempt(attempts, attempt, fence, started_at, _now, worker, final, last_error) END,
               ready_at
        FROM gone
    ), ends AS MATERIALIZED (
        SELECT queue, worker, final, count(*) AS number, nullif(count(successor), 0) AS handed
        FROM gone GROUP BY queue, worker, final
    ), counted AS (
        INSERT INTO tallies (queue, worker, what, number)
        SELECT ends.queue, NULL, change.what, change.number
        FROM ends, LATERAL (
            VALUES ('running', -number), (final, number), ('total_' || final, number),
                   ('total_processed', CASE WHEN final <> 'broken' THEN number END), ('handed', handed)  -- a broken job never ran
        ) AS change (what, number)
        WHERE change.number IS NOT NULL
        UNION ALL
        SELECT '', w.generation, change.what, change.number
        FROM ends JOIN workers w ON w.id = ends.worker, LATERAL (
            VALUES ('total_' || final, number), ('total_processed', CASE WHEN final <> 'broken' THEN number END)
        ) AS change (what, number)
        WHERE change.number IS NOT NULL
    )
    SELECT array_agg(at), array_agg(n) FILTER (WHERE _runs IS NULL OR run IS NULL OR run <> n OR successor IS NULL),
           array_agg(n) FILTER (WHERE keyed AND (_runs IS NULL OR run IS NULL OR run <> n OR successor IS NULL)),
           array_agg(n) FILTER (WHERE keep = 0 AND successor IS NULL),
           -- Not computed for plain jobs.
           CASE WHEN _runs IS NOT NULL THEN (SELECT array_agg(run) FROM gone) END,
           CASE WHEN _runs IS NOT NULL THEN (SELECT array_agg(at) FROM gone WHERE run <> n AND successor IS NULL) END,
           CASE WHEN _runs IS NOT NULL THEN (SELECT array_agg(run) FROM gone WHERE run <> n AND successor IS NULL) END,
           CASE WHEN _runs IS NOT NULL THEN (SELECT array_agg(at ORDER BY at) FROM gone WHERE successor IS NOT NULL) END,
           CASE WHEN _runs IS NOT NULL THEN (SELECT array_agg(run ORDER BY at) FROM gone WHERE successor IS NOT NULL) END,
           CASE WHEN _runs IS NOT NULL THEN (SELECT array_agg(keyed ORDER BY at) FROM gone WHERE successor IS NOT NULL) END
    INTO _ended, _over, _keyed, _unkept, _run_of, _run_ends, _ended_runs, _handing, _handed_runs, _handed_keyed
    FROM gone;
    IF _keyed IS NOT NULL THEN
        PERFORM free_keys(_keyed || _ended_runs, false);
    END IF;
    IF _over IS NOT NULL THEN
        PERFORM notify_waiters(_over || _ended_runs, 'done');
    END IF;
    IF cardinality(_written_by) > 0 OR cardinality(_found_by) > 0 THEN
        _run_of := array_by_position(_ended, _run_of, cardinality(_ns));
        PERFORM write_attributes(_run_of, _written_by, _names, _values);
        PERFORM write_lookups(_run_of, _found_by, _found_names, _found_values);
    END IF;
    IF _handing IS NOT NULL AND cardinality(_handing) < json_array_length(_coming) THEN
        _coming := (SELECT json_agg(new ORDER BY at) FROM (
            SELECT new, (new ->> 'at')::integer AS at FROM json_array_elements(_coming) AS new
        ) AS each WHERE at = ANY (_handing));
    END IF;
    IF _handing IS NULL AND _ended_runs IS NULL AND cardinality(_ended) = cardinality(_ns) AND 'succeeded' = ALL (_states) THEN
        IF EXISTS (SELECT FROM edges d WHERE d.blocker = ANY (_ids) AND d.open) THEN
            PERFORM close_edges(_now, _ids, _results);
        END IF;
        IF _unkept IS NOT NULL THEN
            PERFORM remove_unkept(_now, _unkept);
        END IF;
        RETURN NULL;
    END IF;
    SELECT array_agg(DISTINCT d.blocker) INTO _blocking FROM edges d
    WHERE d.blocker = ANY (
        CASE WHEN _ended_runs IS NULL THEN _ids ELSE _ids || ARRAY(SELECT id FROM jobs WHERE n = ANY (_ended_runs)) END
    ) AND d.open;
    IF _blocking IS NULL AND cardinality(_ended) = cardinality(_ns) THEN
        IF _unkept IS NOT NULL THEN
            PERFORM remove_unkept(_now, _unkept);
        END IF;
        IF _handing IS NOT NULL THEN
            PERFORM enqueue_successors(_now, _handed_runs, _handed_keyed, _coming);
        END IF;
        RETURN NULL;
    END IF;
    IF cardinality(_ended) < cardinality(_ns) OR _ended IS NULL THEN
        PERFORM FROM live WHERE n = ANY (_ns) AND lease_until IS NOT NULL ORDER BY n FOR UPDATE;
    END IF;
    _verdicts := settle_in_order(
        _now, _ns, _ids, _fences, _nonces, _states, _results, _errors, _steps, _payloads, _runs,
        _ended, _blocking, _ended_runs, _run_ends, _handing, _handed_runs, _handed_keyed, _coming, _unkept
    );
    RETURN CASE WHEN cardinality(_ended) = cardinality(_ns) THEN NULL ELSE _verdicts END;
END
$$;
