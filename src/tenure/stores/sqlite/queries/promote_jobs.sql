-- promote_jobs: put the scheduled jobs with the numbers in the JSON array ?1 in line, with seqs from ?2 on.
UPDATE tenure_jobs SET run_at = NULL, seq = ?2 + due.key FROM json_each(?1) AS due WHERE n = due.value
