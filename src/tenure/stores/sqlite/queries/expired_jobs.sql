-- expired_jobs: jobs of the queue ?1 that were to start by ?2 and never did.
SELECT id FROM tenure_jobs
WHERE queue = ?1 AND expires_at IS NOT NULL AND attempt = 0 AND ended_at IS NULL AND expires_at <= ?2 AND state <> 'running'
ORDER BY expires_at, seq
LIMIT 1000
