-- lease: hand out up to _limit due jobs, those of the first queue first, each under a token nobody has held before; promotes
-- due jobs first, cancels those that have expired, passes paused queues over. The last row is no job: it says what else
-- there is, and carries _verdicts, so that a settle and a lease are one statement: lease(…, settle(…)).
--
-- Rows that another step has locked are passed over, here and in what it calls: they are in somebody's hands.
CREATE OR REPLACE FUNCTION lease(
    _now float8, _queues text[], _limit integer, _worker text, _ttl float8, _nonce bigint, _solo boolean,
    _verdicts text[] DEFAULT NULL
) RETURNS SETOF handed LANGUAGE plpgsql AS $$
DECLARE
    _open text[];
    _expired text[];
    _due text[];
    _in_line text[];
    _suspects text[];
    _queue text;
    _alone boolean;
    _taken integer := 0;
    _count integer;
    _promoted bigint := 0;
    _last handed;
BEGIN
    _now := clock(_now);
    SELECT array_agg(queue ORDER BY at) FILTER (WHERE NOT is_paused),
           array_agg(queue ORDER BY at) FILTER (WHERE NOT is_paused AND has_expired),
           array_agg(queue ORDER BY at) FILTER (WHERE NOT is_paused AND has_due), bool_or(has_inbox)
    INTO _open, _expired, _due, _last.inbox
    FROM unnest(_queues) WITH ORDINALITY AS asked (queue, at), LATERAL (
        SELECT EXISTS (SELECT FROM paused p WHERE p.queue = asked.queue) AS is_paused,
               EXISTS (
                   SELECT FROM live l
                   WHERE l.queue = asked.queue AND l.expires_at IS NOT NULL AND l.attempt = 0 AND l.expires_at <= _now
               ) AS has_expired,
               EXISTS (
                   SELECT FROM live l WHERE l.queue = asked.queue AND l.state = 'waiting' AND l.run_at <= _now
               ) AS has_due,
               EXISTS (SELECT FROM inbox i WHERE i.queue = asked.queue) AS has_inbox
    ) AS found;
    FOREACH _queue IN ARRAY coalesce(_expired, '{}') LOOP
        PERFORM cancel_expired(_now, _queue);
    END LOOP;
    FOREACH _queue IN ARRAY coalesce(_due, '{}') LOOP
        _promoted := _promoted + promote(_now, _queue);
    END LOOP;
    SELECT array_agg(queue ORDER BY at) FILTER (WHERE has_line), array_agg(queue ORDER BY at) FILTER (WHERE has_suspect)
    INTO _in_line, _suspects
    FROM unnest(_open) WITH ORDINALITY AS asked (queue, at), LATERAL (
        SELECT EXISTS (
                   SELECT FROM live l
                   WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = asked.queue AND NOT l.suspect
               ) AS has_line,
               EXISTS (
                   SELECT FROM live l WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = asked.queue AND l.suspect
               ) AS has_suspect
    ) AS found;
    _last.suspect_waiting := _suspects IS NOT NULL AND NOT _solo;
    _alone := _suspects IS NOT NULL AND _solo AND _limit > 0;
    IF _alone THEN
        _in_line := _suspects;
        _limit := 1;
    END IF;
    FOREACH _queue IN ARRAY coalesce(_in_line, '{}') LOOP
        EXIT WHEN _taken >= _limit;
        RETURN QUERY
        WITH chosen AS MATERIALIZED (
            SELECT l.n FROM live l
            WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = _queue AND l.suspect = _alone
              AND (l.expires_at IS NULL OR l.attempt > 0 OR l.expires_at > _now)
            ORDER BY l.priority, l.seq LIMIT _limit - _taken FOR NO KEY UPDATE SKIP LOCKED
        ), taken AS (
            UPDATE live l SET
                state = 'running', attempt = l.attempt + 1, fence = l.fence + 1, nonce = _nonce, worker = _worker, solo = _alone,
                started_at = _now, lease_until = _now + coalesce(l.lease, _ttl)
            FROM chosen WHERE l.n = chosen.n
            RETURNING l.n, l.priority, l.seq, l.attempt, l.losses, l.fence, l.misses, l.expires_at, l.error
        )
        SELECT j.n, j.id, j.task, j.queue, j.payload, j.raw, t.priority, t.seq, j.created_at, t.attempt, t.losses, t.fence, t.misses,
               j.max_attempts, j.max_losses, j.lease, j.keep, t.expires_at, j.tags, j.unique_key, j.run_id, t.error,
               CASE WHEN j.edges > 0 THEN ARRAY(
                   SELECT d.result FROM edges d WHERE d.dependent = j.n ORDER BY d.position
               ) END,
               _alone, NULL::boolean, NULL::float8, NULL::boolean, NULL::float8, NULL::text[]
        FROM taken t JOIN jobs j ON j.n = t.n
        ORDER BY t.priority, t.seq;
        GET DIAGNOSTICS _count = ROW_COUNT;
        IF _count > 0 THEN
            INSERT INTO tallies (queue, what, number) VALUES (_queue, 'waiting', -_count), (_queue, 'running', _count);
            _taken := _taken + _count;
        END IF;
    END LOOP;
    IF _promoted > _taken THEN
        PERFORM wake(queue, _promoted - _taken) FROM unnest(_due) AS queue;
    END IF;
    IF _taken = 0 THEN
        SELECT min(greatest(next.run_at - _now, 0)) INTO _last.due_in
        FROM unnest(_open) AS asked (queue), LATERAL (
            SELECT l.run_at FROM live l
            WHERE l.state = 'waiting' AND l.run_at IS NOT NULL AND l.queue = asked.queue ORDER BY l.run_at LIMIT 1
        ) AS next;
    END IF;
    _last.now := _now;
    _last.verdicts := _verdicts;
    RETURN NEXT _last;
END
$$;
