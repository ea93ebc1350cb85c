-- end_held: make held jobs final at the time ?2. ?1 is a JSON array of [number, fence, nonce, state, result, error]. Only for
-- jobs that special_ends, in the same transaction, has found to be plain or to be nothing more than blockers.
UPDATE tenure_jobs SET
    state = wanted.value ->> 3, ended_at = ?2, result = wanted.value ->> 4,
    error = iif(wanted.value ->> 3 = 'succeeded', NULL, coalesce(wanted.value ->> 5, error)),
    lease_until = NULL, progress = NULL, on_timeout = NULL
FROM json_each(?1) AS wanted WHERE n = wanted.value ->> 0
