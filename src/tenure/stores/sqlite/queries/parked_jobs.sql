-- parked_jobs: jobs that nobody has completed from outside by ?2, in the queues of the JSON array ?1.
SELECT id FROM tenure_jobs
WHERE parked_until IS NOT NULL AND parked_until <= ?2 AND queue IN (SELECT value FROM json_each(?1))
LIMIT ?3
