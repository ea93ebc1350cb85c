-- unstarted_jobs: jobs of the queue ?1 that have not started: blocked ones first and the newest of them first, for they may
-- wait for the others.
SELECT id FROM (
    SELECT id FROM tenure_jobs WHERE state = 'blocked' AND queue = ?1 ORDER BY seq DESC LIMIT ?2
)
UNION ALL SELECT id FROM tenure_jobs WHERE state = 'waiting' AND run_at IS NOT NULL AND queue = ?1
UNION ALL SELECT id FROM tenure_jobs WHERE state = 'waiting' AND run_at IS NULL AND queue = ?1
LIMIT ?2
