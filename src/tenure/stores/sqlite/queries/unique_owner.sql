-- unique_owner: the job that owns the key ?2 of the task ?1 at the time ?3.
SELECT job_id FROM tenure_uniques WHERE task = ?1 AND key = ?2 AND (until IS NULL OR until > ?3)
