-- held_plainly: the places in the JSON array ?1 of those jobs that `end_held` would end, and whether others wait for them.
SELECT wanted.key, blocks FROM json_each(?1) AS wanted JOIN tenure_jobs ON n = wanted.value ->> 0
WHERE state = 'running' AND fence = wanted.value ->> 1 AND nonce = wanted.value ->> 2
  AND (blocks = 0 OR wanted.value ->> 3 = 'succeeded')
  AND unique_key IS NULL AND waited = 0 AND keep IS NULL
  AND (run_id IS NULL OR run_id = tenure_jobs.id OR NOT EXISTS (
      SELECT 1 FROM tenure_jobs AS first
      WHERE first.id = tenure_jobs.run_id AND (first.unique_key IS NOT NULL OR first.waited OR first.blocks)
  ))
