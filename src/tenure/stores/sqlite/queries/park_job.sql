-- park_job: a held job is blocked until it is completed from outside, or until ?2, when it is to hand over to the step ?3, if
-- that is given, and else to fail; the attempt is given back.
UPDATE tenure_jobs SET
    state = 'blocked', parked_until = iif(?3 IS NULL, ?2, 9e999), timeout_at = CASE WHEN ?3 IS NOT NULL THEN ?2 END, on_timeout = ?3, attempt = attempt - 1, blocked_by = 1, misses = 0, expires_at = NULL, lease_until = NULL, progress = NULL
WHERE id = ?1
