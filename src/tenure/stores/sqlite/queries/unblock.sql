-- unblock: an edge of the job ?1 has closed; how many are left, and when it is to run.
UPDATE tenure_jobs SET blocked_by = max(blocked_by - 1, 0) WHERE id = ?1 RETURNING state, blocked_by, run_at, queue
