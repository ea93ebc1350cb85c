-- insert_attempts: the attempts in the JSON array ?1, which their jobs are still at, are over at ?2, or were when the job ended.
-- Each: number of the job, outcome, error.
INSERT OR IGNORE INTO tenure_attempts (job, fence, number, started_at, ended_at, worker, outcome, error)
SELECT j.n, j.fence, j.attempt, j.started_at, coalesce(j.ended_at, ?2), j.worker, wanted.value ->> 1, wanted.value ->> 2
FROM json_each(?1) AS wanted JOIN tenure_jobs AS j ON j.n = wanted.value ->> 0
