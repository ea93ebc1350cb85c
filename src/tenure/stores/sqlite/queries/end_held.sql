-- end_held: the held jobs in the JSON array ?1 become final at ?2. Each: number, fence, nonce, state, result, error.
-- Only for jobs that special_ends has passed in the same transaction, and for those that it has found to be no more than blockers.
UPDATE tenure_jobs SET
    state = wanted.value ->> 3, ended_at = ?2, result = wanted.value ->> 4,
    error = iif(wanted.value ->> 3 = 'succeeded', NULL, coalesce(wanted.value ->> 5, error)),
    lease_until = NULL, progress = NULL, on_timeout = NULL
FROM json_each(?1) AS wanted WHERE n = wanted.value ->> 0
