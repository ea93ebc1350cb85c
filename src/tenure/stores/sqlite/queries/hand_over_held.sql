-- hand_over_held: the steps in the JSON array ?1 succeed and have a successor, each if it is held under the token given with it. ?2 is
-- now. Each: number, fence, nonce, result, successor. Only for steps that nobody waits for by themselves: the caller compares the
-- number changed. Who waits for the run goes on waiting.
UPDATE tenure_jobs SET
    state = 'succeeded', ended_at = ?2, result = wanted.value ->> 3, successor = wanted.value ->> 4, error = NULL,
    lease_until = NULL, progress = NULL, on_timeout = NULL, keep_until = 9e999
FROM json_each(?1) AS wanted
WHERE n = wanted.value ->> 0 AND tenure_jobs.state = 'running' AND fence = wanted.value ->> 1 AND nonce = wanted.value ->> 2
  AND run_id IS NOT NULL AND (tenure_jobs.id = run_id OR (unique_key IS NULL AND waited = 0 AND blocks = 0))
