-- current_steps: of each run in the JSON array ?1 its current step, or the last one.
SELECT wanted.value, (SELECT id FROM tenure_jobs AS j WHERE j.run_id = wanted.value ORDER BY j.n DESC LIMIT 1)
FROM json_each(?1) AS wanted
