-- pop_waiters: remove the waiters of the job ?1 and return their doorbells, so that each waiter is notified once.
DELETE FROM tenure_waiters WHERE job_id = ?1 RETURNING bell
