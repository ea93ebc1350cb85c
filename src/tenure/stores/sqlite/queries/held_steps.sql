-- held_steps: count the steps that are held under the given tokens and can hand over in one batch, because no unique key,
-- waiter or dependent belongs to the step itself. ?1 is a JSON array of [number, fence, nonce, ...].
SELECT count(*) FROM json_each(?1) AS wanted JOIN tenure_jobs ON n = wanted.value ->> 0
WHERE state = 'running' AND fence = wanted.value ->> 1 AND nonce = wanted.value ->> 2
  AND run_id IS NOT NULL AND (tenure_jobs.id = run_id OR (unique_key IS NULL AND waited = 0 AND blocks = 0))
