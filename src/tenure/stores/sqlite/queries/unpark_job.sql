-- unpark_job: a parked job comes in line at the back, with the seq ?2, for its holder to hand over to the step that it names.
UPDATE tenure_jobs SET state = 'waiting', seq = ?2, blocked_by = 0, parked_until = NULL, timeout_at = NULL WHERE id = ?1
