-- park_job: block a held job until it is completed from outside, or until ?2. At that time it hands over to the step ?3, or
-- fails if ?3 is NULL. The attempt does not count.
UPDATE tenure_jobs SET
    state = 'blocked', parked_until = iif(?3 IS NULL, ?2, 9e999), timeout_at = CASE WHEN ?3 IS NOT NULL THEN ?2 END, on_timeout = ?3, attempt = attempt - 1, blocked_by = 1, misses = 0, expires_at = NULL, lease_until = NULL, progress = NULL
WHERE id = ?1
