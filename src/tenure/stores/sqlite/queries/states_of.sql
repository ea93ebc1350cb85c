-- states_of: state and seq of the jobs with the ids in the JSON array ?1. For the id of a run, the state is that of its last
-- step.
SELECT id, CASE
    WHEN successor IS NULL OR id <> run_id THEN state
    ELSE (SELECT last.state FROM tenure_jobs AS last WHERE last.run_id = tenure_jobs.id ORDER BY last.n DESC LIMIT 1)
END, seq
FROM tenure_jobs WHERE id IN (SELECT value FROM json_each(?1))
