-- jobs_of_nonce: jobs that are leased under the nonce ?1. Walks all that run, of which there are no more than slots.
SELECT id FROM tenure_jobs INDEXED BY tenure_jobs_held WHERE state = 'running' AND nonce = ?1
