-- expired_leases: running jobs of the queue ?1 whose lease has expired at ?2, the one longest ago first.
SELECT id FROM tenure_jobs WHERE state = 'running' AND queue = ?1 AND lease_until <= ?2 ORDER BY lease_until, seq LIMIT ?3
