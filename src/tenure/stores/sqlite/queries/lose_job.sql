-- lose_job: put a running job back in its place with ?2 losses and the error ?3. Its token becomes invalid.
UPDATE tenure_jobs SET
    state = 'waiting', run_at = NULL, losses = ?2, suspect = ?2 >= 2, error = ?3, nonce = NULL, lease_until = NULL,
    progress = NULL
WHERE id = ?1
