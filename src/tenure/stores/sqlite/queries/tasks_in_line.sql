-- tasks_in_line: the tasks of the first ?2 jobs in line of the queue ?1, and of its first ?3 suspects.
SELECT task FROM (
    SELECT task FROM tenure_jobs
    WHERE state = 'waiting' AND run_at IS NULL AND queue = ?1 AND suspect = 0
    ORDER BY priority, seq
    LIMIT ?2
)
UNION
SELECT task FROM (
    SELECT task FROM tenure_jobs
    WHERE state = 'waiting' AND run_at IS NULL AND queue = ?1 AND suspect = 1
    ORDER BY priority, seq
    LIMIT ?3
)
