-- retry_job: start a final job again: blocked by its ?2 open edges, or in line with the seq ?3, due since ?4. The
-- fence keeps counting, so that old tokens stay invalid.
UPDATE tenure_jobs SET
    state = iif(?2, 'blocked', 'waiting'), blocked_by = ?2, seq = coalesce(?3, seq), suspect = 0, attempt = 0, losses = 0,
    misses = 0, nonce = NULL, ended_at = NULL, keep_until = NULL, expires_at = NULL, result = NULL, waited = 0, on_timeout = NULL,
    ready_at = iif(?3 IS NULL, ready_at, ?4)
WHERE id = ?1
