-- requeue_job: let a held job wait again. ?2 run_at or NULL; ?3 new seq (it is due since ?7), or NULL to keep its place; ?4
-- attempts to subtract; ?5 misses; ?6 error, or NULL to keep the last one.
UPDATE tenure_jobs SET
    state = 'waiting', run_at = ?2, seq = coalesce(?3, seq), attempt = attempt - ?4, misses = ?5, error = coalesce(?6, error),
    ready_at = iif(?3 IS NULL, ready_at, ?7), lease_until = NULL, progress = NULL
WHERE id = ?1
