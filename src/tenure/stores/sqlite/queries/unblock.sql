-- unblock: ?2 edges of the job ?1 have closed; how many are left, and when it is to run.
UPDATE tenure_jobs SET blocked_by = blocked_by - ?2 WHERE id = ?1 RETURNING blocked_by, run_at, queue
