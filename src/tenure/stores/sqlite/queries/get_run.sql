-- get_run: the run ?1: number, id, flow and creation time of its first step; id, state and number of its last step.
SELECT f.n, f.id, f.flow, f.created_at, last.id, last.state, last.n
FROM tenure_jobs AS f
JOIN tenure_jobs AS last ON last.n = (SELECT n FROM tenure_jobs AS j WHERE j.run_id = ?1 ORDER BY j.n DESC LIMIT 1)
WHERE f.id = ?1 AND f.flow IS NOT NULL
