-- delete_plain_jobs: delete the final jobs with the numbers in the JSON array ?1. They have no edges and no run, and own no unique key.
DELETE FROM tenure_jobs WHERE n IN (SELECT value FROM json_each(?1))
