-- unskipped_jobs: up to ?3 of the first ?2 jobs in line of the queue ?1 that have not expired at ?4 and whose task is not in
-- the JSON array ?5, as one JSON array of numbers, in order. Suspects are left out.
SELECT json_group_array(n) FROM (
    SELECT n FROM (
        SELECT n, task, priority, seq, attempt, expires_at FROM tenure_jobs
        WHERE state = 'waiting' AND run_at IS NULL AND queue = ?1 AND suspect = 0
        ORDER BY priority, seq
        LIMIT ?2
    )
    WHERE task NOT IN (SELECT value FROM json_each(?5)) AND (expires_at IS NULL OR attempt > 0 OR expires_at > ?4)
    ORDER BY priority, seq
    LIMIT ?3
)
