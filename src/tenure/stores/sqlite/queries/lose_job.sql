-- lose_job: a running job goes back to its place, with ?2 losses and the error ?3; its token is dead.
UPDATE tenure_jobs SET
    state = 'waiting', run_at = NULL, losses = ?2, suspect = ?2 >= 2, error = ?3, nonce = NULL, lease_until = NULL,
    progress = NULL
WHERE id = ?1
