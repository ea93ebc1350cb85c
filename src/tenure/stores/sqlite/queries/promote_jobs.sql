-- promote_jobs: put the scheduled jobs with the numbers in the JSON array ?1 in line, with seqs from ?2 on. Each became due at
-- its time, not now.
UPDATE tenure_jobs SET ready_at = run_at, run_at = NULL, seq = ?2 + due.key FROM json_each(?1) AS due WHERE n = due.value
