-- delete_plain_jobs: remove the final jobs with the numbers in the JSON array ?1, which have neither edges nor a key.
DELETE FROM tenure_jobs WHERE n IN (SELECT value FROM json_each(?1))
