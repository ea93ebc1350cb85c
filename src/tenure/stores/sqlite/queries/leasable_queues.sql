-- leasable_queues: those of the queues in the JSON array ?1 that have jobs to lease, to promote or to cancel at the time ?2, or
-- entries in their inbox; in the order of the array. Columns: name, jobs in line, scheduled jobs, whether a job has expired,
-- whether a suspect is in line, whether the inbox may have entries. Of a paused queue only the inbox counts. All of it is one
-- statement because each statement gives up the interpreter lock.
SELECT q.name, iif(q.paused, 0, q.waiting), iif(q.paused, 0, q.scheduled),
    q.paused = 0 AND EXISTS (
        SELECT 1 FROM tenure_jobs AS j
        WHERE j.queue = q.name AND j.expires_at IS NOT NULL AND j.attempt = 0 AND j.ended_at IS NULL AND j.expires_at <= ?2
          AND j.state <> 'running'
    ),
    q.paused = 0 AND q.waiting > 0 AND EXISTS (
        SELECT 1 FROM tenure_jobs AS j
        WHERE j.state = 'waiting' AND j.run_at IS NULL AND j.queue = q.name AND j.suspect = 1
    ),
    q.inbox
FROM json_each(?1) AS wanted JOIN tenure_queues AS q ON q.name = wanted.value
WHERE (q.paused = 0 AND (q.waiting > 0 OR q.scheduled > 0 OR q.blocked > 0)) OR q.inbox
ORDER BY wanted.key
