-- delete_worker: delete the worker ?1 from the registry.
DELETE FROM tenure_workers WHERE id = ?1
