-- special_ends: find the ends that cannot be written by end_held alone. ?1 is a JSON array of [number, fence, nonce, state,
-- ...]. Returns one JSON array of [index in ?1, flag], without the plain ends. Flag 1: the job succeeds and is a blocker, so
-- that its dependents' edges have to be closed, and nothing else. Flag 0: anything else, such as a lost lease, a unique key, a
-- waiter, a retention time (keep), or the end of a run that has one of these.
SELECT json_group_array(json_array(wanted.key, j.n IS NOT NULL AND wanted.value ->> 3 = 'succeeded'))
FROM json_each(?1) AS wanted LEFT JOIN tenure_jobs AS j
  ON j.n = wanted.value ->> 0 AND j.state = 'running' AND j.fence = wanted.value ->> 1 AND j.nonce = wanted.value ->> 2
  AND j.unique_key IS NULL AND j.waited = 0 AND j.keep IS NULL
  AND (j.run_id IS NULL OR j.run_id = j.id OR NOT EXISTS (
      SELECT 1 FROM tenure_jobs AS first
      WHERE first.id = j.run_id AND (first.unique_key IS NOT NULL OR first.waited OR first.blocks)
  ))
WHERE j.n IS NULL OR j.blocks
