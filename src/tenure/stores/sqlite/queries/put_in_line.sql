-- put_in_line: a waiting or blocked job comes in line at the back, with the seq ?2; or waits until ?3, with its old seq.
UPDATE tenure_jobs SET state = 'waiting', seq = coalesce(?2, seq), run_at = ?3, blocked_by = 0 WHERE id = ?1
