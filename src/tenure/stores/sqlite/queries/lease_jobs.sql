-- lease_jobs: hand the jobs in the JSON array ?1 out, each under a token nobody has held before.
-- Runs in the transaction that read them, so nobody has come between.
UPDATE tenure_jobs SET
    state = 'running', attempt = attempt + 1, fence = fence + 1, nonce = ?2, worker = ?3, solo = ?4,
    started_at = ?5, lease_until = ?6 + coalesce(lease, ?7)
WHERE n IN (SELECT value FROM json_each(?1))
