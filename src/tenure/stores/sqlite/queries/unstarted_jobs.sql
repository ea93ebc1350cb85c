-- unstarted_jobs: jobs of the queue ?1 that have not started.
SELECT id FROM tenure_jobs WHERE state = 'waiting' AND run_at IS NULL AND queue = ?1
UNION ALL SELECT id FROM tenure_jobs WHERE state = 'waiting' AND run_at IS NOT NULL AND queue = ?1
UNION ALL SELECT id FROM tenure_jobs WHERE state = 'blocked' AND queue = ?1
LIMIT ?2
