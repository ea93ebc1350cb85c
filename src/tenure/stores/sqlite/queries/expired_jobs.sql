-- expired_jobs: jobs that were to start by ?2 and never did, in those of the queues in the JSON array ?1 that are not paused.
SELECT j.id
FROM json_each(?1) AS wanted
JOIN tenure_queues AS q ON q.name = wanted.value AND q.paused = 0
JOIN tenure_jobs AS j
    ON j.queue = q.name AND j.expires_at IS NOT NULL AND j.attempt = 0 AND j.ended_at IS NULL AND j.expires_at <= ?2
WHERE j.state <> 'running'
LIMIT 1000
