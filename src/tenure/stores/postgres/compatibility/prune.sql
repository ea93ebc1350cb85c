-- prune: `prune_from` for programs of layout 6 and before: of all queues at once. Delete up to `_limit` final jobs that
-- retention does not keep, also unique keys past their window, idle callers and watchers past their time, and fold
-- tallies. Returns how many jobs were deleted.
--
-- A retention is an array: seconds for succeeded and cancelled jobs, seconds for failed and broken ones, the largest
-- number of each pair. `_own` holds the retentions of `_queues` one after the other.
CREATE OR REPLACE FUNCTION prune(_now float8, _limit integer, _default float8[], _queues text[], _own float8[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    _pruned integer;
    _queue record;
    _at integer;
    _retention float8[];
BEGIN
    _now := clock(_now);
    DELETE FROM uniques WHERE ctid = ANY (ARRAY(SELECT ctid FROM uniques WHERE until <= _now FOR UPDATE SKIP LOCKED));
    DELETE FROM idle WHERE until < clock(NULL) - 60;
    DELETE FROM watchers WHERE until < clock(NULL) - 60;
    _pruned := remove_unclaimed(_now, ARRAY(
        SELECT n FROM unclaimed(_now) WHERE keep_until <= _now ORDER BY keep_until LIMIT _limit
    ));
    FOR _queue IN
        SELECT queue, coalesce(sum(number) FILTER (WHERE what IN ('succeeded', 'cancelled')), 0)::bigint
                   - coalesce(sum(number) FILTER (WHERE what = 'handed'), 0)::bigint AS short,
               coalesce(sum(number) FILTER (WHERE what IN ('failed', 'broken')), 0)::bigint AS long
        FROM counted WHERE worker IS NULL AND queue <> '' GROUP BY queue ORDER BY queue
    LOOP
        _at := array_position(_queues, _queue.queue);
        _retention := CASE WHEN _at IS NULL THEN _default ELSE _own[3 * _at - 2 : 3 * _at] END;
        IF _queue.short > 0 AND _pruned < _limit THEN
            _pruned := _pruned + prune_states(
                _now, _queue.queue, 'succeeded', 'cancelled', _queue.short, _retention[1], _retention[3], _limit - _pruned
            );
        END IF;
        IF _queue.long > 0 AND _pruned < _limit THEN
            _pruned := _pruned + prune_states(
                _now, _queue.queue, 'failed', 'broken', _queue.long, _retention[2], _retention[3], _limit - _pruned
            );
        END IF;
    END LOOP;
    PERFORM fold_tallies();  -- last, because it locks rows that others fold into
    RETURN _pruned;
END
$$;
