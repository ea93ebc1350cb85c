-- unpark_job: put a parked job in line with the seq ?2, due since ?3. Its time of waiting is over; the worker that leases it
-- hands over to the step on_timeout.
UPDATE tenure_jobs SET
    state = 'waiting', seq = ?2, ready_at = ?3, blocked_by = 0, parked_until = NULL, timeout_at = NULL
WHERE id = ?1
