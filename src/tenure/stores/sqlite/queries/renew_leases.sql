-- renew_leases: hold the jobs in the JSON array ?1 for longer from ?2 on, each if the token given with it is current.
-- Each: id, fence, nonce, seconds or null, progress or null.
UPDATE tenure_jobs SET
    lease_until = iif(wanted.value ->> 3 IS NULL, lease_until, ?2 + (wanted.value ->> 3)),
    progress = coalesce(wanted.value ->> 4, progress)
FROM json_each(?1) AS wanted
WHERE tenure_jobs.id = wanted.value ->> 0 AND state = 'running' AND fence = wanted.value ->> 1 AND nonce = wanted.value ->> 2
