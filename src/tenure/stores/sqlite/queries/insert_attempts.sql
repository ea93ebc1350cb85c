-- insert_attempts: record the current attempts of jobs as ended at ?2, or at the time when the job ended. ?1 is a JSON array of
-- [number of the job, outcome, error].
INSERT OR IGNORE INTO tenure_attempts (job, fence, number, started_at, ended_at, worker, outcome, error)
SELECT j.n, j.fence, j.attempt, j.started_at, coalesce(j.ended_at, ?2), j.worker, wanted.value ->> 1, wanted.value ->> 2
FROM json_each(?1) AS wanted JOIN tenure_jobs AS j ON j.n = wanted.value ->> 0
