-- expired_leases: up to ?3 running jobs of the queue ?1 whose lease has expired by ?2 (seconds since boot), the oldest expiry
-- first.
SELECT id FROM tenure_jobs WHERE state = 'running' AND queue = ?1 AND lease_until <= ?2 ORDER BY lease_until, seq LIMIT ?3
