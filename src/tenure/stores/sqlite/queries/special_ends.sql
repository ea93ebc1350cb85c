-- special_ends: which of the settlements in the JSON array ?1 do more than to end a job that is held under the token given with it.
-- Each: number, fence, nonce, state. Comes back as one JSON array: the place of each in the array, and 1 if all that it
-- does besides is to succeed as a blocker of others, else 0 (its lease is lost, or its end concerns a unique key, a waiter, retention).
SELECT json_group_array(json_array(wanted.key, j.n IS NOT NULL AND wanted.value ->> 3 = 'succeeded'))
FROM json_each(?1) AS wanted LEFT JOIN tenure_jobs AS j
  ON j.n = wanted.value ->> 0 AND j.state = 'running' AND j.fence = wanted.value ->> 1 AND j.nonce = wanted.value ->> 2
  AND j.unique_key IS NULL AND j.waited = 0 AND j.keep IS NULL
  AND (j.run_id IS NULL OR j.run_id = j.id OR NOT EXISTS (
      SELECT 1 FROM tenure_jobs AS first
      WHERE first.id = j.run_id AND (first.unique_key IS NOT NULL OR first.waited OR first.blocks)
  ))
WHERE j.n IS NULL OR j.blocks
