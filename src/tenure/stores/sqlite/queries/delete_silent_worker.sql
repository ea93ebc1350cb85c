-- delete_silent_worker: remove the worker ?1 if it has not beaten since ?2 and holds nothing.
DELETE FROM tenure_workers
WHERE id = ?1 AND beat <= ?2 AND NOT EXISTS (SELECT 1 FROM tenure_jobs WHERE state = 'running' AND worker = ?1)
