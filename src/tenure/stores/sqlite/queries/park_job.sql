-- park_job: a held job is blocked until it is completed from outside, or until ?2; the attempt is given back.
UPDATE tenure_jobs SET
    state = 'blocked', parked_until = ?2, attempt = attempt - 1, blocked_by = 1, misses = 0, expires_at = NULL, lease_until = NULL, progress = NULL
WHERE id = ?1
