-- end_job: a job becomes final. ?2 state, ?3 now, ?4 result, ?5 error (NULL keeps the last one, unless it succeeded), ?6 its own time of keeping; ?7 whether its token
-- stays known (a settle may be repeated), or is dead; ?8 the step that it hands over to.
UPDATE tenure_jobs SET
    state = ?2, ended_at = ?3, result = ?4, error = iif(?2 = 'succeeded', NULL, coalesce(?5, error)), keep_until = ?6,
    nonce = CASE WHEN ?7 THEN nonce END,
    run_at = NULL, lease_until = NULL, parked_until = NULL, timeout_at = NULL, on_timeout = NULL, blocked_by = 0, progress = NULL,
    successor = ?8
WHERE id = ?1
