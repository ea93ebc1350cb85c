-- held_plainly: the places in the JSON array ?1 of those jobs that `end_held` would end.
SELECT wanted.key FROM json_each(?1) AS wanted JOIN tenure_jobs ON n = wanted.value ->> 0
WHERE state = 'running' AND fence = wanted.value ->> 1 AND nonce = wanted.value ->> 2
  AND unique_key IS NULL AND waited = 0 AND blocks = 0 AND keep IS NULL
