-- mark_waited: record that a caller waits for the job ?1.
UPDATE tenure_jobs SET waited = 1 WHERE id = ?1
