-- bell_of_worker: where to ring a worker.
SELECT bell FROM tenure_workers WHERE id = ?1
