-- clear_waited: record that no caller waits for the job ?1 any more. It is started again, and its waiters were notified of its first end.
UPDATE tenure_jobs SET waited = 0 WHERE id = ?1
