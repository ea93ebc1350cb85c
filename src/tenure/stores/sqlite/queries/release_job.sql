-- release_job: a running job goes back to its place and gets its attempt back; its token is dead.
UPDATE tenure_jobs SET
    state = 'waiting', run_at = NULL, attempt = attempt - 1, nonce = NULL, lease_until = NULL, progress = NULL
WHERE id = ?1
