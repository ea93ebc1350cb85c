-- states_of: state and seq of the jobs with the ids in the JSON array ?1.
SELECT id, state, seq FROM tenure_jobs WHERE id IN (SELECT value FROM json_each(?1))
