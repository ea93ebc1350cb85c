-- suspect_waits: whether a suspect is in line in the queue ?1.
SELECT 1 FROM tenure_jobs WHERE state = 'waiting' AND run_at IS NULL AND queue = ?1 AND suspect = 1 LIMIT 1
