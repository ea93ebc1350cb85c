-- add_waiter: ring the doorbell ?2 when the job ?1 is final.
INSERT OR IGNORE INTO tenure_waiters (job_id, bell) VALUES (?1, ?2)
