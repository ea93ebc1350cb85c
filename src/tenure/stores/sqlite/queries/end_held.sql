-- end_held: the jobs in the JSON array ?1 become final, each if it is held under the token given with it. ?2 is now.
-- Each: number, fence, nonce, state, result, error. Only for jobs whose end is nobody's concern, nor that of the run that it would
-- be the last step of: the caller compares the number changed. ?3 is 1 for those that others wait for, and then only success counts.
UPDATE tenure_jobs SET
    state = wanted.value ->> 3, ended_at = ?2, result = wanted.value ->> 4,
    error = iif(wanted.value ->> 3 = 'succeeded', NULL, coalesce(wanted.value ->> 5, error)),
    lease_until = NULL, progress = NULL, on_timeout = NULL
FROM json_each(?1) AS wanted
WHERE n = wanted.value ->> 0 AND tenure_jobs.state = 'running' AND fence = wanted.value ->> 1 AND nonce = wanted.value ->> 2
  AND (?3 = 0 OR wanted.value ->> 3 = 'succeeded')
  AND unique_key IS NULL AND waited = 0 AND keep IS NULL AND blocks = ?3
  AND (run_id IS NULL OR run_id = tenure_jobs.id OR NOT EXISTS (
      SELECT 1 FROM tenure_jobs AS first
      WHERE first.id = tenure_jobs.run_id AND (first.unique_key IS NOT NULL OR first.waited OR first.blocks)
  ))
