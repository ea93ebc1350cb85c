-- mark_line_start: If a lease has to skip many dead index entries before the first job in line of `_queue`, remember
-- where the lease with `_nonce` found its jobs: for one second, or for longer if skipping takes long.
--
-- A transaction that stays open, anywhere in the database, keeps dead rows from being vacuumed, and every lease would
-- skip all of them: after 100,000 jobs it would take a hundred times as long. So the next leases begin where this one
-- arrived, or a little before it, for enqueues that drew their positions earlier and committed later. `lease_work` does
-- not pass over a job that returned to a position before the mark. A more urgent job, or one committed later still, is
-- leased that much later, unless nothing else is in line.
CREATE OR REPLACE FUNCTION mark_line_start(_now float8, _queue text, _nonce bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _begun timestamptz := clock_timestamp();
    _walked bigint := pg_stat_get_xact_tuples_returned('live_in_line'::regclass);
BEGIN
    -- The lease may have been slow for another reason: scan once more and count.
    PERFORM FROM live WHERE state = 'waiting' AND run_at IS NULL AND queue = _queue AND NOT suspect LIMIT 1;
    IF pg_stat_get_xact_tuples_returned('live_in_line'::regclass) - _walked < 5000 THEN
        RETURN;
    END IF;
    PERFORM FROM fronts WHERE queue = _queue FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM fronts WHERE queue = _queue) THEN
        RETURN;  -- another lease is writing it
    END IF;
    INSERT INTO fronts (queue, priority, seq, until)
    SELECT _queue, priority, seq - 500, clock(NULL) + 1 + 20 * extract(epoch FROM clock_timestamp() - _begun) FROM live
    WHERE state = 'running' AND queue = _queue AND lease_until >= _now AND nonce = _nonce
    ORDER BY priority DESC, seq DESC LIMIT 1
    ON CONFLICT (queue) DO UPDATE SET priority = excluded.priority, seq = excluded.seq, until = excluded.until;
END
$$;
