-- resume_queue: resume the queue ?1 and return how many jobs it has in line or scheduled. Returns no row if it was not paused.
UPDATE tenure_queues SET paused = 0 WHERE name = ?1 AND paused = 1 RETURNING waiting + scheduled
