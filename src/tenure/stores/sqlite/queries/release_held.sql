-- release_held: put held jobs back in their places. The attempt does not count. ?1 is a JSON array of [number, fence, nonce].
-- Only for jobs that held_leases has counted in the same transaction.
UPDATE tenure_jobs SET state = 'waiting', run_at = NULL, attempt = attempt - 1, lease_until = NULL, progress = NULL
WHERE n IN (SELECT value ->> 0 FROM json_each(?1))
