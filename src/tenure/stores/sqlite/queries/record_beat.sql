-- record_beat: the worker ?1 lives and says ?2 of itself.
UPDATE tenure_workers SET pulse = ?2, beat = ?3 WHERE id = ?1
