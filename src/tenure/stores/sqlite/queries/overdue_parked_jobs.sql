-- overdue_parked_jobs: up to ?3 parked jobs of the queue ?1 that were not completed by ?2, the earliest deadline first.
SELECT id FROM (
    SELECT * FROM (
        SELECT id, parked_until AS until, seq FROM tenure_jobs
        WHERE parked_until IS NOT NULL AND parked_until <= ?2 AND queue = ?1
        ORDER BY parked_until, seq LIMIT ?3
    )
    UNION ALL
    SELECT * FROM (
        SELECT id, timeout_at AS until, seq FROM tenure_jobs
        WHERE timeout_at IS NOT NULL AND timeout_at <= ?2 AND queue = ?1
        ORDER BY timeout_at, seq LIMIT ?3
    )
)
ORDER BY until, seq
LIMIT ?3
