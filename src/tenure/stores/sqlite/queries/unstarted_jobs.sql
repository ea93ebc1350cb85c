-- unstarted_jobs: up to ?2 jobs of the queue ?1 that have not started, in order of enqueueing.
SELECT id FROM (
    SELECT id, n FROM tenure_jobs WHERE state = 'blocked' AND queue = ?1
    UNION ALL SELECT id, n FROM tenure_jobs WHERE state = 'waiting' AND run_at IS NOT NULL AND queue = ?1
    UNION ALL SELECT id, n FROM tenure_jobs WHERE state = 'waiting' AND run_at IS NULL AND queue = ?1
    LIMIT ?2
)
ORDER BY n
