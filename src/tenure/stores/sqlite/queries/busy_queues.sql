-- busy_queues: queues that have something to do before the times ?1 (wall clock) and ?2 (clock of leases), by their counters and, where
-- those are not enough, by a look at the first job; and whether a lease has expired, or a parking is over, at ?3 and ?4.
SELECT q.name, q.running > 0 AND EXISTS (
        SELECT 1 FROM tenure_jobs AS j WHERE j.state = 'running' AND j.queue = q.name AND j.lease_until <= ?4
    ) OR q.blocked > 0 AND (
        EXISTS (SELECT 1 FROM tenure_jobs AS j WHERE j.parked_until IS NOT NULL AND j.queue = q.name AND j.parked_until <= ?3)
        OR EXISTS (SELECT 1 FROM tenure_jobs AS j WHERE j.timeout_at IS NOT NULL AND j.queue = q.name AND j.timeout_at <= ?3)
    )
FROM tenure_queues AS q
WHERE q.name <> '' AND (
    q.inbox
    OR q.paused = 0 AND (
        q.waiting > 0
        OR q.scheduled > 0 AND EXISTS (
            SELECT 1 FROM tenure_jobs AS j
            WHERE j.state = 'waiting' AND j.run_at IS NOT NULL AND j.queue = q.name AND j.run_at <= ?1
        )
        OR q.scheduled + q.blocked > 0 AND EXISTS (
            SELECT 1 FROM tenure_jobs AS j
            WHERE j.queue = q.name AND j.expires_at IS NOT NULL AND j.attempt = 0 AND j.ended_at IS NULL AND j.expires_at <= ?1
        )
    )
    OR q.running > 0 AND EXISTS (
        SELECT 1 FROM tenure_jobs AS j WHERE j.state = 'running' AND j.queue = q.name AND j.lease_until <= ?2
    )
    OR q.blocked > 0 AND (
        EXISTS (SELECT 1 FROM tenure_jobs AS j WHERE j.parked_until IS NOT NULL AND j.queue = q.name AND j.parked_until <= ?1)
        OR EXISTS (SELECT 1 FROM tenure_jobs AS j WHERE j.timeout_at IS NOT NULL AND j.queue = q.name AND j.timeout_at <= ?1)
    )
)
