-- free_unique: release the key ?2 of the task ?1 if the job ?3 owns it. A key claimed for a window is released only if ?4 is 1.
DELETE FROM tenure_uniques WHERE task = ?1 AND key = ?2 AND job_id = ?3 AND (until IS NULL OR ?4)
