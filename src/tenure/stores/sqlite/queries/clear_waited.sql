-- clear_waited: who has waited for the job ?1 waits anew, or no longer.
UPDATE tenure_jobs SET waited = 0 WHERE id = ?1
