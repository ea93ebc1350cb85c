-- claim_unique: make the job ?3 the owner of the key ?2 of the task ?1, until the time ?4 or (NULL) until it is final. The
-- caller has seen that the key is free.
INSERT OR REPLACE INTO tenure_uniques (task, key, job_id, until) VALUES (?1, ?2, ?3, ?4)
