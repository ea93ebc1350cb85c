-- bell_of_worker: the doorbell of the worker ?1.
SELECT bell FROM tenure_workers WHERE id = ?1
