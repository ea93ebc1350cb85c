-- claim_unique: give the key ?2 of the task ?1 to the job ?3, until ?4 or until it is final; the caller has seen it free.
INSERT OR REPLACE INTO tenure_uniques (task, key, job_id, until) VALUES (?1, ?2, ?3, ?4)
