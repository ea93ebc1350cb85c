-- lease_work: Lease up to `_limit` due jobs, those of the first queue first, each under a token that was never used
-- before. Cancels expired jobs and promotes due ones first; skips paused queues. Returns a row for each job, and a last
-- row without a job.
--
-- The last row says what else there is. Its tags are the skipped tasks that have a job in line, if nothing was leased.
-- It carries `_verdicts`, so that a settle and a lease are one statement: lease_work(…, settle_all(…)). Nothing is
-- leased if one of these verdicts is lease_lost: the settle may have waited for the transaction that took the job, and
-- holds the job locked until the statement ends, so every other lease would skip it.
--
-- Race: jobs that another transaction has locked are skipped, here and in the functions this calls. Where
-- `mark_line_start` has marked a line, a lease begins there, unless a job has returned to a position before the mark.
--
-- `_ttl`: seconds of a lease of a job that has no own length; `_at_most`: longest lease, NULL: no bound. `_solo`:
-- whether the worker takes suspects. `_isolated`: tasks of which it takes suspects anyway; `_skip`: tasks to pass over;
-- both NULL if there are none.
CREATE OR REPLACE FUNCTION lease_work(
    _now float8, _queues text[], _limit integer, _worker text, _ttl float8, _nonce bigint, _solo boolean, _isolated text[],
    _skip text[], _at_most float8, _verdicts text[] DEFAULT NULL
) RETURNS SETOF handed LANGUAGE plpgsql AS $$
DECLARE
    _open text[];
    _expired text[];
    _due text[];
    _in_line text[];
    _suspects text[];
    _queue text;
    _alone boolean := false;
    _tried integer := 0;
    _taken integer := 0;
    _count integer;
    _fronted text[];
    _priorities integer[];
    _seqs bigint[];
    _front integer;
    _end_priority integer;
    _end_seq bigint;
    _tidied boolean := false;
    _promoting text[];
    _promoted bigint := 0;
    _last handed;
BEGIN
    _now := clock(_now);
    IF 'lease_lost' = ANY (_verdicts) THEN
        _limit := 0;
    END IF;
    LOOP
        SELECT array_agg(queue) FILTER (WHERE is_open), array_agg(queue) FILTER (WHERE is_open AND has_expired),
               array_agg(queue) FILTER (WHERE is_open AND has_due), array_agg(queue) FILTER (WHERE is_open AND has_line),
               array_agg(queue) FILTER (WHERE is_open AND has_suspect), bool_or(has_inbox),
               array_agg(queue) FILTER (WHERE has_front), array_agg(priority) FILTER (WHERE has_front),
               array_agg(seq) FILTER (WHERE has_front)
        INTO _open, _expired, _due, _in_line, _suspects, _last.inbox, _fronted, _priorities, _seqs
        FROM (
            -- Not EXISTS, because the planner would build a hash table of all jobs in line.
            SELECT queue, (SELECT true FROM paused p WHERE p.queue = asked.queue) IS NULL AS is_open,
                   (
                       SELECT true FROM live l
                       WHERE l.queue = asked.queue AND l.expires_at IS NOT NULL AND l.attempt = 0 AND l.expires_at <= _now LIMIT 1
                   ) AS has_expired,
                   (
                       SELECT true FROM live l WHERE l.state = 'waiting' AND l.queue = asked.queue AND l.run_at <= _now LIMIT 1
                   ) AS has_due,
                   -- With a single queue the lease itself shows this.
                   has_front, priority, seq, coalesce(cardinality(_queues) = 1 OR has_front, (
                       SELECT true FROM live l
                       WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = asked.queue AND NOT l.suspect LIMIT 1
                   )) AS has_line,
                   (
                       SELECT true FROM live l
                       WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = asked.queue AND l.suspect LIMIT 1
                   ) AS has_suspect,
                   (SELECT true FROM inbox i WHERE i.queue = asked.queue LIMIT 1) AS has_inbox
            FROM unnest(_queues) WITH ORDINALITY AS asked (queue, at)
            LEFT JOIN LATERAL (
                SELECT f.priority, f.seq FROM fronts f
                WHERE f.queue = asked.queue AND f.until BETWEEN clock(NULL) AND clock(NULL) + 600 AND (  -- 600: not by a clock set back since
                    SELECT true FROM live l
                    WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = f.queue AND l.fence > 0 AND NOT l.suspect
                      AND (l.priority, l.seq) < (f.priority, f.seq) LIMIT 1
                ) IS NULL
            ) AS front ON true, LATERAL (
                SELECT CASE WHEN front.seq IS NOT NULL THEN (
                    SELECT true FROM live l
                    WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = asked.queue AND NOT l.suspect
                      AND (l.priority, l.seq) >= (front.priority, front.seq) LIMIT 1
                ) END AS has_front
            ) AS behind_it
            ORDER BY at
        ) AS found;
        -- Query once more after tidying, because that may have changed what is in line.
        EXIT WHEN _tidied OR (_expired IS NULL AND _due IS NULL);
        FOREACH _queue IN ARRAY coalesce(_expired, '{}') LOOP
            PERFORM cancel_expired(_now, _queue);
        END LOOP;
        FOREACH _queue IN ARRAY coalesce(_due, '{}') LOOP
            _promoted := _promoted + promote_due(_now, _queue);
        END LOOP;
        _promoting := _due;
        _tidied := true;
    END LOOP;
    _last.suspect_waiting := _suspects IS NOT NULL AND NOT _solo;
    IF _skip IS NULL AND _last.suspect_waiting AND _isolated IS NULL THEN
        _suspects := NULL;
    ELSIF _last.suspect_waiting OR (_skip IS NOT NULL AND _suspects IS NOT NULL) THEN
        -- From here on _suspects are the queues that have a suspect which this worker may take.
        SELECT array_agg(queue ORDER BY at) FILTER (WHERE mine), coalesce(bool_or(others), false)
        INTO _suspects, _last.suspect_waiting
        FROM (
            SELECT queue, at, bool_or(is_mine) AS mine, bool_or(NOT is_mine) AS others
            FROM unnest(_suspects) WITH ORDINALITY AS asked (queue, at), LATERAL (
                SELECT l.task, _solo OR coalesce(l.task = ANY (_isolated), false) AS is_mine FROM live l
                WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = asked.queue AND l.suspect
                ORDER BY l.priority, l.seq LIMIT 100
            ) AS first
            WHERE _skip IS NULL OR first.task <> ALL (_skip)
            GROUP BY queue, at
        ) AS found;
    END IF;
    -- Suspects first; if other workers have taken them meanwhile, the line.
    FOREACH _queue IN ARRAY coalesce(_suspects, '{}') || coalesce(_in_line, '{}') LOOP
        EXIT WHEN _taken >= _limit OR (_alone AND _taken > 0);
        _tried := _tried + 1;
        _alone := _tried <= coalesce(cardinality(_suspects), 0);
        -- The mark as it was read above: a newer one might pass over a job that has returned to a position before it.
        _front := CASE WHEN NOT _alone THEN array_position(_fronted, _queue) END;
        _end_priority := NULL;
        _end_seq := NULL;
        IF _skip IS NOT NULL AND NOT _alone THEN
            -- The position of the last job that is looked at.
            SELECT l.priority, l.seq INTO _end_priority, _end_seq FROM live l
            WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = _queue AND NOT l.suspect
            ORDER BY l.priority, l.seq OFFSET 999 LIMIT 1;
        END IF;
        RETURN QUERY
        WITH chosen AS MATERIALIZED (
            SELECT l.n FROM live l
            WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = _queue AND l.suspect = _alone
              AND (NOT _alone OR _solo OR l.task = ANY (_isolated)) AND (_skip IS NULL OR l.task <> ALL (_skip))
              AND (l.priority, l.seq) >= (coalesce(_priorities[_front], -2147483648), coalesce(_seqs[_front], 0))
              AND (l.priority, l.seq) <= (coalesce(_end_priority, 2147483647), coalesce(_end_seq, 9223372036854775807))
              AND (l.expires_at IS NULL OR l.attempt > 0 OR l.expires_at > _now)
            ORDER BY l.priority, l.seq LIMIT CASE WHEN _alone THEN 1 ELSE _limit - _taken END FOR NO KEY UPDATE SKIP LOCKED
        ), taken AS (
            UPDATE live l SET
                state = 'running', attempt = l.attempt + 1, fence = l.fence + 1, nonce = _nonce, worker = _worker, solo = _alone,
                started_at = _now, lease_until = _now + least(coalesce(l.lease, _ttl), _at_most),
                held_for = least(coalesce(l.lease, _ttl), _at_most)
            FROM chosen WHERE l.n = ANY (ARRAY[chosen.n])
            RETURNING l.n, l.priority, l.seq, l.attempt, l.losses, l.fence, l.misses, l.expires_at, l.error, l.on_timeout,
                      l.ready_at
        )
        SELECT j.n, j.id, j.task, j.queue, j.payload, j.raw, t.priority, t.seq, j.created_at, t.attempt, t.losses, t.fence, t.misses,
               j.max_attempts, j.max_losses, j.lease, j.keep, t.expires_at, j.tags, j.unique_key, j.run_id, t.error,
               CASE WHEN j.edges > 0 THEN ARRAY(
                   SELECT d.result FROM edges d WHERE d.dependent = j.n ORDER BY d.position
               ) END,
               _alone, NULL::boolean, NULL::float8, NULL::boolean, NULL::float8, NULL::text[], j.reads,
               CASE WHEN j.reads IS NOT NULL THEN ARRAY(
                   SELECT a.name || E'\x1f' || a.value FROM attributes a WHERE a.run = j.run AND a.name = ANY (j.reads)
               ) END,
               t.on_timeout, t.ready_at, j.headers
        FROM taken t JOIN jobs j ON j.n = ANY (ARRAY[t.n])
        ORDER BY t.priority, t.seq;
        GET DIAGNOSTICS _count = ROW_COUNT;
        IF _count > 0 THEN
            INSERT INTO tallies (queue, what, number) VALUES (_queue, 'waiting', -_count), (_queue, 'running', _count);
            _taken := _taken + _count;
        END IF;
    END LOOP;
    -- Not for a request that skips tasks, because it does not see where the line begins for other workers.
    IF _taken > 0 AND NOT _alone AND _skip IS NULL AND clock_timestamp() > statement_timestamp() + interval '2 ms' THEN
        PERFORM mark_line_start(_now, queue, _nonce) FROM unnest(_in_line) AS queue WHERE (queue = ANY (_fronted)) IS NOT TRUE;
    END IF;
    IF _promoted > _taken THEN
        PERFORM wake_workers(queue, _promoted - _taken) FROM unnest(_promoting) AS queue;
    END IF;
    IF _taken = 0 THEN
        SELECT min(greatest(next.run_at - _now, 0)) INTO _last.due_in
        FROM unnest(_open) AS asked (queue), LATERAL (
            SELECT l.run_at FROM live l
            WHERE l.state = 'waiting' AND l.run_at IS NOT NULL AND l.queue = asked.queue ORDER BY l.run_at LIMIT 1
        ) AS next;
    END IF;
    IF _taken = 0 AND _skip IS NOT NULL THEN
        _last.tags := ARRAY(
            SELECT DISTINCT first.task FROM unnest(_open) AS asked (queue), LATERAL (
                (
                    SELECT l.task FROM live l
                    WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = asked.queue AND NOT l.suspect
                    ORDER BY l.priority, l.seq LIMIT 1000
                ) UNION ALL (
                    SELECT l.task FROM live l
                    WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = asked.queue AND l.suspect
                    ORDER BY l.priority, l.seq LIMIT 100
                )
            ) AS first
            WHERE first.task = ANY (_skip)
        );
    END IF;
    _last.now := _now;
    _last.verdicts := _verdicts;
    RETURN NEXT _last;
END
$$;
