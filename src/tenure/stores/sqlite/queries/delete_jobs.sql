-- delete_jobs: delete the jobs with the ids in the JSON array ?1.
DELETE FROM tenure_jobs WHERE id IN (SELECT value FROM json_each(?1))
