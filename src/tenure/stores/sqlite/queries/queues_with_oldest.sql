-- queues_with_oldest: up to ?2 queues whose names come after ?1, by name: counters, totals, and since when the job has been
-- due that has been due the longest, among the first jobs of the first ?3 priorities, of suspects and of the others; NULL if
-- none is in line. Two lookups for each of these jobs instead of a scan of the line.
SELECT q.name, q.paused, q.waiting, q.scheduled, q.blocked, q.running, q.succeeded, q.failed, q.cancelled, q.broken,
       q.total_processed, q.total_succeeded, q.total_failed, q.total_retried, q.total_lost, q.total_cancelled, q.total_broken,
       CASE WHEN q.waiting > 0 THEN (
           WITH RECURSIVE front (number, suspect, priority, due) AS (
               SELECT 1, j.suspect, j.priority, coalesce(j.ready_at, j.created_at)
               FROM (SELECT 0 AS suspect UNION ALL SELECT 1) AS part CROSS JOIN tenure_jobs AS j ON j.n = (
                   SELECT n FROM tenure_jobs AS l
                   WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = q.name AND l.suspect = part.suspect
                   ORDER BY l.priority, l.seq LIMIT 1
               )
               UNION ALL
               SELECT front.number + 1, j.suspect, j.priority, coalesce(j.ready_at, j.created_at)
               FROM front CROSS JOIN tenure_jobs AS j ON front.number < ?3 AND j.n = (
                   SELECT n FROM tenure_jobs AS l
                   WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = q.name AND l.suspect = front.suspect
                     AND l.priority > front.priority
                   ORDER BY l.priority, l.seq LIMIT 1
               )
           )
           SELECT min(due) FROM front
       ) END
FROM tenure_queues AS q WHERE q.name > ?1 ORDER BY q.name LIMIT ?2
