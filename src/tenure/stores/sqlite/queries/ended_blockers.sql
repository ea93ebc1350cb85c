-- ended_blockers: of the jobs in the JSON array ?1 those that are final, and those that began a run which has gone on since.
SELECT j.id FROM json_each(?1) AS wanted JOIN tenure_jobs AS j ON j.id = wanted.value WHERE j.ended_at IS NOT NULL
