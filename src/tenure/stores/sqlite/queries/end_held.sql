-- end_held: the jobs in the JSON array ?1 become final, each if it is held under the token given with it. ?2 is now.
-- Each: number, fence, nonce, state, result, error. Only for jobs that nobody waits for: the caller compares the number changed.
UPDATE tenure_jobs SET
    state = wanted.value ->> 3, ended_at = ?2, result = wanted.value ->> 4,
    error = iif(wanted.value ->> 3 = 'succeeded', NULL, coalesce(wanted.value ->> 5, error)),
    lease_until = NULL, progress = NULL
FROM json_each(?1) AS wanted
WHERE n = wanted.value ->> 0 AND tenure_jobs.state = 'running' AND fence = wanted.value ->> 1 AND nonce = wanted.value ->> 2
  AND unique_key IS NULL AND waited = 0 AND blocks = 0 AND keep IS NULL
