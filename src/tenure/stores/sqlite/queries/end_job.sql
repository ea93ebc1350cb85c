-- end_job: make the job ?1 final. ?2 state; ?3 now; ?4 result; ?5 error (NULL keeps the last one, unless the job succeeded); ?6
-- time until which the record is kept, NULL for the queue's retention; ?7 whether the token stays valid for a repeated settle;
-- ?8 the step that the job hands over to, or NULL.
UPDATE tenure_jobs SET
    state = ?2, ended_at = ?3, result = ?4, error = iif(?2 = 'succeeded', NULL, coalesce(?5, error)), keep_until = ?6,
    nonce = CASE WHEN ?7 THEN nonce END,
    run_at = NULL, lease_until = NULL, parked_until = NULL, timeout_at = NULL, on_timeout = NULL, blocked_by = 0, progress = NULL,
    successor = ?8
WHERE id = ?1
