-- lease_jobs: lease the jobs that first_in_line has just read with the same ?1 to ?5, each under a token that was never used
-- before. ?6 nonce, ?7 worker, ?8 now (seconds since boot), ?9 seconds for jobs without a lease time of their own, ?10 maximum
-- of seconds. Runs in the same transaction, so nothing has changed in between.
UPDATE tenure_jobs SET
    state = 'running', attempt = attempt + 1, fence = fence + 1, nonce = ?6, worker = ?7, solo = ?2,
    started_at = ?4, lease_until = ?8 + min(coalesce(lease, ?9), ?10)
WHERE n IN (
    SELECT n FROM tenure_jobs
    WHERE state = 'waiting' AND run_at IS NULL AND queue = ?1 AND suspect = ?2
      AND (expires_at IS NULL OR attempt > 0 OR expires_at > ?4)
    ORDER BY priority, seq
    LIMIT ?3 OFFSET ?5
)
