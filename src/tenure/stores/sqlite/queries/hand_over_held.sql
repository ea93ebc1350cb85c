-- hand_over_held: make held steps succeed at the time ?2, each with a successor. ?1 is a JSON array of [number, fence, nonce,
-- result, successor]. Only for steps that held_steps has counted in the same transaction. Waiters and dependents of the run
-- keep waiting.
UPDATE tenure_jobs SET
    state = 'succeeded', ended_at = ?2, result = wanted.value ->> 3, successor = wanted.value ->> 4, error = NULL,
    lease_until = NULL, progress = NULL, on_timeout = NULL, keep_until = 9e999
FROM json_each(?1) AS wanted WHERE n = wanted.value ->> 0
