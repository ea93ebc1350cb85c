-- lease_jobs: hand out the jobs that first_in_line has just read with the same ?1 to ?5, each under a token nobody has held
-- before, for as many seconds as the job says, or else ?9, and no more than ?10. Runs in the same transaction, so nobody has come
-- between.
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
