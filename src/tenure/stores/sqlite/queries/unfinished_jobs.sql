-- unfinished_jobs: those of the jobs and runs in the JSON array ?1 that are not final, as one JSON array of [id, id of its current
-- step (of a run) or its own id, fence of that].
SELECT json_group_array(json_array(first.id, j.id, j.fence))
FROM json_each(?1) AS wanted
JOIN tenure_jobs AS first ON first.id = wanted.value
JOIN tenure_jobs AS j ON j.n = CASE
    WHEN first.successor IS NULL OR first.id <> first.run_id THEN first.n
    ELSE (SELECT step.n FROM tenure_jobs AS step WHERE step.run_id = first.id ORDER BY step.n DESC LIMIT 1)
END
WHERE j.ended_at IS NULL
