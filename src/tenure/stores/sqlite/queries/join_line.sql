-- join_line: a waiting or blocked job comes in line at the back, with the seq ?2, or stays scheduled until ?3.
UPDATE tenure_jobs SET state = 'waiting', seq = ?2, run_at = ?3, blocked_by = 0 WHERE id = ?1
