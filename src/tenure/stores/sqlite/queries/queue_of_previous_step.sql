-- queue_of_previous_step: the queue of the step of the run ?1 that came before the one with the number ?2.
SELECT queue FROM tenure_jobs WHERE run_id = ?1 AND n < ?2 ORDER BY n DESC LIMIT 1
