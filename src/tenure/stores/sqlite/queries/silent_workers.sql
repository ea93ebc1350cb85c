-- silent_workers: forget workers that have not beaten since ?1 and hold nothing.
DELETE FROM tenure_workers
WHERE beat <= ?1 AND NOT EXISTS (SELECT 1 FROM tenure_jobs WHERE state = 'running' AND worker = tenure_workers.id)
