-- unstarted_jobs: up to ?2 jobs of the queue ?1 that have not started, in order of enqueueing. Blocked jobs are chosen before
-- others, the newest first, because they may wait for the others.
SELECT id FROM (
    SELECT id, n FROM (SELECT id, n FROM tenure_jobs WHERE state = 'blocked' AND queue = ?1 ORDER BY seq DESC LIMIT ?2)
    UNION ALL SELECT id, n FROM tenure_jobs WHERE state = 'waiting' AND run_at IS NOT NULL AND queue = ?1
    UNION ALL SELECT id, n FROM tenure_jobs WHERE state = 'waiting' AND run_at IS NULL AND queue = ?1
    LIMIT ?2
)
ORDER BY n
