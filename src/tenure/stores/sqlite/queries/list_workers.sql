-- list_workers: all registered workers, by start.
SELECT id, host, pid, queues, tasks, concurrency, lanes, pulse, started_at, beat,
       total_processed, total_succeeded, total_failed, total_retried, total_lost, total_cancelled, total_broken, release,
       standing_order
FROM tenure_workers ORDER BY started_at, rowid
