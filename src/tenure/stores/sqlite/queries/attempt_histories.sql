-- attempt_histories: the recorded attempts of the jobs in the JSON array ?1, in order of fence for each job.
SELECT j.id, a.number, a.fence, a.started_at, a.ended_at, a.worker, a.outcome, a.error
FROM json_each(?1) AS wanted JOIN tenure_jobs AS j ON j.id = wanted.value JOIN tenure_attempts AS a ON a.job = j.n
ORDER BY a.job, a.fence
