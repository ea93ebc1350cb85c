-- suspect_tasks: the tasks of the first ?2 suspects of the queue ?1, in order, as one JSON array.
SELECT json_group_array(task) FROM (
    SELECT task FROM tenure_jobs
    WHERE state = 'waiting' AND run_at IS NULL AND queue = ?1 AND suspect = 1
    ORDER BY priority, seq
    LIMIT ?2
)
