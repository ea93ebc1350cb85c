-- count_closed_edges: subtract closed edges from the open ones of each dependent. ?1 is a JSON array of [id, closed edges].
-- Returns what is left open, with the fields that the caller needs to put the job in line.
UPDATE tenure_jobs SET blocked_by = max(blocked_by - (wanted.value ->> 1), 0)
FROM json_each(?1) AS wanted WHERE tenure_jobs.id = wanted.value ->> 0
RETURNING id, state, blocked_by, run_at, queue, task
