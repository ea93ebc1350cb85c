-- renew_leases: renew leases and store progress, each if its token is current. ?1 is a JSON array of [id, fence, nonce, seconds
-- or null, progress or null]; ?2 is now (seconds since boot).
UPDATE tenure_jobs SET
    lease_until = iif(wanted.value ->> 3 IS NULL, lease_until, ?2 + (wanted.value ->> 3)),
    progress = coalesce(wanted.value ->> 4, progress)
FROM json_each(?1) AS wanted
WHERE tenure_jobs.id = wanted.value ->> 0 AND state = 'running' AND fence = wanted.value ->> 1 AND nonce = wanted.value ->> 2
