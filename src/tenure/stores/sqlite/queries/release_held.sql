-- release_held: the held jobs in the JSON array ?1 go back to their places; the attempt is given back. Each: number, fence, nonce.
-- Only for jobs that held_leases has counted in the same transaction.
UPDATE tenure_jobs SET state = 'waiting', run_at = NULL, attempt = attempt - 1, lease_until = NULL, progress = NULL
WHERE n IN (SELECT value ->> 0 FROM json_each(?1))
