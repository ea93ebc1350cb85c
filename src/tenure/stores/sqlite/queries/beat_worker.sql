-- beat_worker: the worker ?1 lives and holds ?2 jobs.
UPDATE tenure_workers SET held = ?2, beat = ?3 WHERE id = ?1
