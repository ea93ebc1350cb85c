-- forget_queues: of the queues after _after, up to _until if that is not NULL, remove those that are empty, were so _quiet seconds
-- ago, and in which nothing was counted since; note for the others that are empty that they are. How many went.
--
-- A job that comes meanwhile is safe: its row in `tallies` makes the queue exist, and of the rows that count jobs only those go that are 0.
CREATE OR REPLACE FUNCTION forget_queues(_now float8, _after text, _until text, _quiet float8) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    _due text[];
    _gone text[];
BEGIN
    _now := clock(_now);
    INSERT INTO quiet (queue, since, totals)
    SELECT q.queue, _now, q.totals FROM quiet_queues(_after, _until) AS q
    WHERE q.since IS NULL OR q.since > _now OR q.seen <> q.totals
    ORDER BY q.queue  -- in one order, for two that do so at once
    ON CONFLICT (queue) DO UPDATE SET since = excluded.since, totals = excluded.totals;
    _due := ARRAY(SELECT q.queue FROM quiet_queues(_after, _until) AS q WHERE q.since <= _now - _quiet AND q.seen = q.totals);
    IF cardinality(_due) = 0 THEN
        RETURN 0;
    END IF;
    -- From here on nothing is folded into these rows, so that no total goes that has grown since the second look. A queue with rows
    -- that are not folded yet stays until the next call.
    PERFORM FROM counters WHERE queue = ANY (_due) AND worker = 0 ORDER BY queue, worker, what FOR UPDATE;
    _gone := ARRAY(
        SELECT q.queue FROM quiet_queues(_after, _until) AS q
        WHERE q.queue = ANY (_due) AND q.seen = q.totals AND q.queue <> ALL (ARRAY(SELECT t.queue FROM tallies t))
    );
    DELETE FROM counters WHERE queue = ANY (_gone) AND worker = 0 AND (number = 0 OR starts_with(what, 'total_'));
    -- A note that another call is writing stays, and does no harm: to wait for that call, which may wait for the rows above, would.
    DELETE FROM quiet WHERE queue = ANY (ARRAY(SELECT n.queue FROM quiet n WHERE n.queue = ANY (_gone) FOR UPDATE SKIP LOCKED));
    RETURN cardinality(_gone);
END
$$;
