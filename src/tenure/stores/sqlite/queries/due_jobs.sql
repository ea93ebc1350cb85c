-- due_jobs: scheduled jobs of the queue ?1 that are due at ?2, as one JSON array of numbers, in the order in which they join
-- the line.
SELECT json_group_array(n) FROM (
    SELECT n FROM tenure_jobs
    WHERE state = 'waiting' AND run_at IS NOT NULL AND queue = ?1 AND run_at <= ?2
    ORDER BY run_at, seq
    LIMIT 1000
)
