-- resume_queue: resume the queue ?1; nothing comes back if it is not paused.
UPDATE tenure_queues SET paused = 0 WHERE name = ?1 AND paused = 1 RETURNING waiting + scheduled
