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
    INSERT INTO counters (queue, worker, what, number)
    SELECT q.queue, 0, note.what, note.number
    FROM quiet_queues(_after, _until) AS q,
         LATERAL (VALUES ('quiet_since', floor(_now)::bigint), ('quiet_totals', q.totals)) AS note (what, number)
    WHERE q.since IS NULL OR q.since > _now OR q.seen <> q.totals
    ORDER BY 1, 2, 3  -- in one order, as `fold` does
    ON CONFLICT (queue, worker, what) DO UPDATE SET number = excluded.number;
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
    DELETE FROM counters
    WHERE queue = ANY (_gone) AND worker = 0 AND (number = 0 OR starts_with(what, 'total_') OR starts_with(what, 'quiet_'));
    RETURN cardinality(_gone);
END
$$;
