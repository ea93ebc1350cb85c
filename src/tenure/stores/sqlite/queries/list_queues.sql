-- list_queues: every queue with its counters and totals, by name.
SELECT name, paused, waiting, scheduled, blocked, running, succeeded, failed, cancelled, broken,
       total_processed, total_succeeded, total_failed, total_retried, total_lost, total_cancelled, total_broken, passed
FROM tenure_queues WHERE name <> '' ORDER BY name
