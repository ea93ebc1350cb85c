-- put_in_line: put a scheduled or blocked job in line with the seq ?2, or (NULL) with its old one; or schedule it for the time
-- ?3.
UPDATE tenure_jobs SET state = 'waiting', seq = coalesce(?2, seq), run_at = ?3, blocked_by = 0 WHERE id = ?1
