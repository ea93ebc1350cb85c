-- release_job: put a running job back in its place. The attempt does not count, and its token becomes invalid.
UPDATE tenure_jobs SET
    state = 'waiting', run_at = NULL, attempt = attempt - 1, nonce = NULL, lease_until = NULL, progress = NULL
WHERE id = ?1
