-- add_waiter: the bell ?2 is to ring when the job ?1 is final.
INSERT OR IGNORE INTO tenure_waiters (job_id, bell) VALUES (?1, ?2)
