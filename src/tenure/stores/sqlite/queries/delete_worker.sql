-- delete_worker: the worker ?1 is gone.
DELETE FROM tenure_workers WHERE id = ?1
