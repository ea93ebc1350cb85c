-- held_steps: how many of the steps in the JSON array ?1 are held under the token given with it and can hand over together: nobody
-- waits for them by themselves. Each: number, fence, nonce.
SELECT count(*) FROM json_each(?1) AS wanted JOIN tenure_jobs ON n = wanted.value ->> 0
WHERE state = 'running' AND fence = wanted.value ->> 1 AND nonce = wanted.value ->> 2
  AND run_id IS NOT NULL AND (tenure_jobs.id = run_id OR (unique_key IS NULL AND waited = 0 AND blocks = 0))
