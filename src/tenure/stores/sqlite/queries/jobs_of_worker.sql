-- jobs_of_worker: jobs that the worker ?1 holds. Walks all that run, of which there are no more than slots.
SELECT id FROM tenure_jobs INDEXED BY tenure_jobs_held WHERE state = 'running' AND worker = ?1 LIMIT ?2
