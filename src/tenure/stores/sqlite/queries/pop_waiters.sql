-- pop_waiters: where to ring those who wait for a job; each is told once.
DELETE FROM tenure_waiters WHERE job_id = ?1 RETURNING bell
