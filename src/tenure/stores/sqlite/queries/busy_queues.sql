-- busy_queues: queues that will have something to do before the wall time ?1 or the boot time ?2. The counters decide; where
-- they are not enough, a look at the first job does. The second column says whether a lease has expired by ?4 (boot time) or a
-- parked job is overdue at ?3 (wall time).
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
