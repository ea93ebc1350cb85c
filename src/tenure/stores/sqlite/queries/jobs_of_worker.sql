-- jobs_of_worker: up to ?2 jobs that the worker ?1 holds. Scans all running jobs, which are never more than the workers' slots.
SELECT id FROM tenure_jobs INDEXED BY tenure_jobs_held WHERE state = 'running' AND worker = ?1 LIMIT ?2
