-- count_queue: add to the counts and totals of a queue, which comes to exist by it.
INSERT INTO tenure_queues (
    name, waiting, scheduled, blocked, running, succeeded, failed, cancelled, broken,
    total_processed, total_succeeded, total_failed, total_retried, total_lost, total_cancelled, total_broken
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
ON CONFLICT (name) DO UPDATE SET
    waiting = waiting + excluded.waiting,
    scheduled = scheduled + excluded.scheduled,
    blocked = blocked + excluded.blocked,
    running = running + excluded.running,
    succeeded = succeeded + excluded.succeeded,
    failed = failed + excluded.failed,
    cancelled = cancelled + excluded.cancelled,
    broken = broken + excluded.broken,
    total_processed = total_processed + excluded.total_processed,
    total_succeeded = total_succeeded + excluded.total_succeeded,
    total_failed = total_failed + excluded.total_failed,
    total_retried = total_retried + excluded.total_retried,
    total_lost = total_lost + excluded.total_lost,
    total_cancelled = total_cancelled + excluded.total_cancelled,
    total_broken = total_broken + excluded.total_broken
