-- put_in_line: put a scheduled or blocked job in line with the seq ?2, due since ?4. If ?2 is NULL, it keeps its seq and since
-- when it is due: it is put in line as it was created, or (?3 is a time) scheduled.
UPDATE tenure_jobs SET
    state = 'waiting', seq = coalesce(?2, seq), ready_at = iif(?2 IS NULL, ready_at, ?4), run_at = ?3, blocked_by = 0
WHERE id = ?1
