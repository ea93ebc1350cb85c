-- mark_line_start: if one has to walk far to the beginning of this queue's line, remember where it was for the lease of this token: for a
-- second, or for longer if the walk takes long.
--
-- A transaction that stays open for long, anywhere in the database, keeps everything that was deleted since from being cleaned
-- away, and a lease would walk over all of it, each time: after a hundred thousand jobs it would take a hundred times as long. So
-- the others begin where the one who had to walk arrived, or a little before it, for enqueues that drew their places before others
-- and are committed after them. What comes back to a place before that is not passed over, see `lease`; what is more urgent, or
-- committed later still, is leased up to so much later, unless nothing else is in line.
CREATE OR REPLACE FUNCTION mark_line_start(_now float8, _queue text, _nonce bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _begun timestamptz := clock_timestamp();
    _walked bigint := pg_stat_get_xact_tuples_returned('live_in_line'::regclass);
BEGIN
    -- What took a while may have been something else: this is the walk once more.
    PERFORM FROM live WHERE state = 'waiting' AND run_at IS NULL AND queue = _queue AND NOT suspect LIMIT 1;
    IF pg_stat_get_xact_tuples_returned('live_in_line'::regclass) - _walked < 5000 THEN
        RETURN;
    END IF;
    PERFORM FROM fronts WHERE queue = _queue FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM fronts WHERE queue = _queue) THEN
        RETURN;  -- another is about to say so
    END IF;
    INSERT INTO fronts (queue, priority, seq, until)
    SELECT _queue, priority, seq - 500, clock(NULL) + 1 + 20 * extract(epoch FROM clock_timestamp() - _begun) FROM live
    WHERE state = 'running' AND queue = _queue AND lease_until >= _now AND nonce = _nonce
    ORDER BY priority DESC, seq DESC LIMIT 1
    ON CONFLICT (queue) DO UPDATE SET priority = excluded.priority, seq = excluded.seq, until = excluded.until;
END
$$;
