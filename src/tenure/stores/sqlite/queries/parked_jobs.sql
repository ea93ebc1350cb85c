-- parked_jobs: jobs of the queue ?1 that nobody has completed from outside by ?2.
SELECT id FROM tenure_jobs
WHERE parked_until IS NOT NULL AND parked_until <= ?2 AND queue = ?1
ORDER BY parked_until, seq
LIMIT ?3
