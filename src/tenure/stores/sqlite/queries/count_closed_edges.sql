-- count_closed_edges: so many edges of each job in the JSON array ?1 (id, number) have closed; how many are left, when it is to run, and who it is.
UPDATE tenure_jobs SET blocked_by = max(blocked_by - (wanted.value ->> 1), 0)
FROM json_each(?1) AS wanted WHERE tenure_jobs.id = wanted.value ->> 0
RETURNING id, state, blocked_by, run_at, queue, task
