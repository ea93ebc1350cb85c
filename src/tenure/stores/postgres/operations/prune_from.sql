-- prune_from: Delete up to `_limit` final jobs that retention does not keep, of the first `_most` queues with names
-- after `_after`. Returns how many, and the queue after which to go on; NULL after the last. If `_after` is empty, it
-- first deletes jobs past their own retention, unique keys past their window, and idle callers and watchers past their
-- time. Tallies must have been folded before.
--
-- A retention is an array: seconds for succeeded and cancelled jobs, seconds for failed and broken ones, the largest
-- number of each pair. `_own` holds the retentions of `_queues` one after the other.
CREATE OR REPLACE FUNCTION prune_from(
    _now float8, _limit integer, _default float8[], _queues text[], _own float8[], _after text, _most integer
) RETURNS TABLE (pruned integer, next text) LANGUAGE plpgsql AS $$
DECLARE
    _queue record;
    _at integer;
    _seen integer := 0;
    _retention float8[];
BEGIN
    _now := clock(_now);
    pruned := 0;
    IF _after = '' THEN
        DELETE FROM uniques WHERE ctid = ANY (ARRAY(SELECT ctid FROM uniques WHERE until <= _now FOR UPDATE SKIP LOCKED));
        DELETE FROM idle WHERE until < clock(NULL) - 60;
        DELETE FROM watchers WHERE until < clock(NULL) - 60;
        pruned := remove_unclaimed(_now, ARRAY(
            SELECT n FROM unclaimed(_now) WHERE keep_until <= _now ORDER BY keep_until LIMIT _limit
        ));
    END IF;
    next := _after;
    FOR _queue IN
        SELECT queue, coalesce(sum(number) FILTER (WHERE what IN ('succeeded', 'cancelled')), 0)::bigint
                   - coalesce(sum(number) FILTER (WHERE what = 'handed'), 0)::bigint AS short,
               coalesce(sum(number) FILTER (WHERE what IN ('failed', 'broken')), 0)::bigint AS long
        FROM counters WHERE queue > _after AND worker = 0 GROUP BY queue ORDER BY queue LIMIT _most
    LOOP
        EXIT WHEN pruned >= _limit;
        _at := array_position(_queues, _queue.queue);
        _retention := CASE WHEN _at IS NULL THEN _default ELSE _own[3 * _at - 2 : 3 * _at] END;
        -- Most queues have nothing to prune, which these two lookups show.
        IF _queue.short > 0 AND (_queue.short > _retention[3] OR (
            SELECT true FROM ended WHERE queue = _queue.queue AND state IN ('succeeded', 'cancelled')
              AND ended_at <= _now - _retention[1] AND successor IS NULL LIMIT 1
        )) THEN
            pruned := pruned + prune_states(
                _now, _queue.queue, 'succeeded', 'cancelled', _queue.short, _retention[1], _retention[3], _limit - pruned
            );
        END IF;
        EXIT WHEN pruned >= _limit;
        IF _queue.long > 0 AND (_queue.long > _retention[3] OR (
            SELECT true FROM ended WHERE queue = _queue.queue AND state IN ('failed', 'broken')
              AND ended_at <= _now - _retention[2] AND successor IS NULL LIMIT 1
        )) THEN
            pruned := pruned + prune_states(
                _now, _queue.queue, 'failed', 'broken', _queue.long, _retention[2], _retention[3], _limit - pruned
            );
        END IF;
        EXIT WHEN pruned >= _limit;
        _seen := _seen + 1;
        next := _queue.queue;
    END LOOP;
    IF pruned < _limit AND _seen < _most THEN
        next := NULL;
    END IF;
    RETURN NEXT;
END
$$;
