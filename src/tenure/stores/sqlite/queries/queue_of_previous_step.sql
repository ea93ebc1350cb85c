-- queue_of_previous_step: the queue of the step that comes before the step with number ?2 in the run ?1.
SELECT queue FROM tenure_jobs WHERE run_id = ?1 AND n < ?2 ORDER BY n DESC LIMIT 1
