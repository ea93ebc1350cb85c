-- forget_queues: Delete the counters of queues that are empty, were so `_quiet` seconds ago, and counted nothing since.
-- Record when the other empty queues were first seen empty. Looks at names after `_after` and up to `_until` (NULL: no
-- bound). Returns how many queues were deleted.
--
-- Race: a job is enqueued meanwhile. Its row in `tallies` makes the queue exist, and of the rows that count jobs only
-- those with 0 are deleted.
CREATE OR REPLACE FUNCTION forget_queues(_now float8, _after text, _until text, _quiet float8) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    _due text[];
    _gone text[];
BEGIN
    _now := clock(_now);
    INSERT INTO quiet (queue, since, totals)
    SELECT q.queue, _now, q.totals FROM empty_queues(_after, _until) AS q
    WHERE q.since IS NULL OR q.since > _now OR q.seen <> q.totals
    ORDER BY q.queue  -- in one order, so that two calls do not deadlock
    ON CONFLICT (queue) DO UPDATE SET since = excluded.since, totals = excluded.totals;
    _due := ARRAY(SELECT q.queue FROM empty_queues(_after, _until) AS q WHERE q.since <= _now - _quiet AND q.seen = q.totals);
    IF cardinality(_due) = 0 THEN
        RETURN 0;
    END IF;
    -- From here on nothing is folded into these rows, so that no total is deleted that has grown since the second query.
    -- A queue with rows that are not folded yet stays until the next call.
    PERFORM FROM counters WHERE queue = ANY (_due) AND worker = 0 ORDER BY queue, worker, what FOR UPDATE;
    _gone := ARRAY(
        SELECT q.queue FROM empty_queues(_after, _until) AS q
        WHERE q.queue = ANY (_due) AND q.seen = q.totals AND q.queue <> ALL (ARRAY(SELECT t.queue FROM tallies t))
    );
    DELETE FROM counters WHERE queue = ANY (_gone) AND worker = 0 AND (number = 0 OR starts_with(what, 'total_'));
    -- A row that another call is writing stays and does no harm. Waiting for that call, which may wait for the rows above,
    -- could deadlock.
    DELETE FROM quiet WHERE queue = ANY (ARRAY(SELECT n.queue FROM quiet n WHERE n.queue = ANY (_gone) FOR UPDATE SKIP LOCKED));
    RETURN cardinality(_gone);
END
$$;
