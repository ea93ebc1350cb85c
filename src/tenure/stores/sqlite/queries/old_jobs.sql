-- old_jobs: final jobs of the queue ?1 in state ?2 that ended by ?3, the oldest first, but for those with a time of their own.
SELECT id, blocks FROM tenure_jobs
WHERE ended_at IS NOT NULL AND queue = ?1 AND state = ?2 AND ended_at <= ?3 AND keep_until IS NULL
ORDER BY ended_at
LIMIT ?4
