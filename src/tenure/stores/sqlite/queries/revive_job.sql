-- revive_job: a final job begins anew: in line with the seq ?3, or blocked by its ?2 open edges. The fence goes on.
UPDATE tenure_jobs SET
    state = iif(?2, 'blocked', 'waiting'), blocked_by = ?2, seq = ?3, run_at = NULL, suspect = 0, attempt = 0, losses = 0,
    misses = 0, nonce = NULL, started_at = NULL, ended_at = NULL, keep_until = NULL, expires_at = NULL, worker = NULL,
    solo = 0, result = NULL, error = NULL, progress = NULL
WHERE id = ?1
