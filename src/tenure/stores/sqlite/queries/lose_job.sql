-- lose_job: a running job goes back to its place, with ?2 losses; its token is dead.
UPDATE tenure_jobs SET
    state = 'waiting', run_at = NULL, losses = ?2, suspect = ?2 >= 2, nonce = NULL, lease_until = NULL, progress = NULL
WHERE id = ?1
