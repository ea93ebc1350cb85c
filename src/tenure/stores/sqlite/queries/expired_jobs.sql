-- expired_jobs: jobs that were to start by ?1 and never did.
SELECT id FROM tenure_jobs
WHERE expires_at IS NOT NULL AND attempt = 0 AND ended_at IS NULL AND expires_at <= ?1 AND state <> 'running'
ORDER BY expires_at
LIMIT 1000
