-- expired_jobs: jobs of the queue ?1 that should have started by ?2 and never did, the earliest deadline first.
SELECT id FROM tenure_jobs
WHERE queue = ?1 AND expires_at IS NOT NULL AND attempt = 0 AND ended_at IS NULL AND expires_at <= ?2 AND state <> 'running'
ORDER BY expires_at, seq
LIMIT 1000
