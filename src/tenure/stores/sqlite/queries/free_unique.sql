-- free_unique: the job ?3 gives the key ?2 of the task ?1 back; a key held for a window only if ?4.
DELETE FROM tenure_uniques WHERE task = ?1 AND key = ?2 AND job_id = ?3 AND (until IS NULL OR ?4)
