-- add_queue_counts: add to the counters and totals of queues, creating rows for new queues. Returns for each queue whether it
-- is paused. The row with the empty name reserves seqs at the back of all lines; its returned seq is the last one reserved. The
-- last column says whether any edge is open. The caller repeats the group of values, one for each row.
INSERT INTO tenure_queues (
    name, seq, waiting, scheduled, blocked, running, succeeded, failed, cancelled, broken, passed,
    total_processed, total_succeeded, total_failed, total_retried, total_lost, total_cancelled, total_broken
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
    seq = seq + excluded.seq,
    waiting = waiting + excluded.waiting,
    scheduled = scheduled + excluded.scheduled,
    blocked = blocked + excluded.blocked,
    running = running + excluded.running,
    succeeded = succeeded + excluded.succeeded,
    failed = failed + excluded.failed,
    cancelled = cancelled + excluded.cancelled,
    broken = broken + excluded.broken,
    passed = passed + excluded.passed,
    total_processed = total_processed + excluded.total_processed,
    total_succeeded = total_succeeded + excluded.total_succeeded,
    total_failed = total_failed + excluded.total_failed,
    total_retried = total_retried + excluded.total_retried,
    total_lost = total_lost + excluded.total_lost,
    total_cancelled = total_cancelled + excluded.total_cancelled,
    total_broken = total_broken + excluded.total_broken
RETURNING name, seq, paused, EXISTS (SELECT 1 FROM tenure_edges WHERE open = 1)
