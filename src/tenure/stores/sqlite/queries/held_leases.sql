-- held_leases: count the jobs that are held under the given tokens. ?1 is a JSON array of [number, fence, nonce].
SELECT count(*) FROM json_each(?1) AS wanted JOIN tenure_jobs ON n = wanted.value ->> 0
WHERE state = 'running' AND fence = wanted.value ->> 1 AND nonce = wanted.value ->> 2
