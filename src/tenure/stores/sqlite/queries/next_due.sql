-- next_due: the time at which the next scheduled job of the queue ?1 is due.
SELECT run_at FROM tenure_jobs WHERE state = 'waiting' AND run_at IS NOT NULL AND queue = ?1 ORDER BY run_at LIMIT 1
