-- held_leases: how many of the jobs in the JSON array ?1 are held under the token given with it. Each: number, fence, nonce.
SELECT count(*) FROM json_each(?1) AS wanted JOIN tenure_jobs ON n = wanted.value ->> 0
WHERE state = 'running' AND fence = wanted.value ->> 1 AND nonce = wanted.value ->> 2
