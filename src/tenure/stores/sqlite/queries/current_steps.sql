-- current_steps: the current or last step of each run in the JSON array ?1.
SELECT wanted.value, (SELECT id FROM tenure_jobs AS j WHERE j.run_id = wanted.value ORDER BY j.n DESC LIMIT 1)
FROM json_each(?1) AS wanted
