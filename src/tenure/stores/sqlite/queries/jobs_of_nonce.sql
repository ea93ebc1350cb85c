-- jobs_of_nonce: jobs that are leased under the nonce ?1. Scans all running jobs, which are never more than the workers' slots.
SELECT id FROM tenure_jobs INDEXED BY tenure_jobs_held WHERE state = 'running' AND nonce = ?1
