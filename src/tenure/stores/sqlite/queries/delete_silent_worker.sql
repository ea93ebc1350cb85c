-- delete_silent_worker: delete the worker ?1 if its last beat is not later than ?2 and it holds no job.
DELETE FROM tenure_workers
WHERE id = ?1 AND beat <= ?2 AND NOT EXISTS (SELECT 1 FROM tenure_jobs WHERE state = 'running' AND worker = ?1)
