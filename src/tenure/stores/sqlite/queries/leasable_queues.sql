-- leasable_queues: those of the queues in the JSON array ?1 that have something to hand out, to promote or to cancel at the time
-- ?2, in the order of the array: how many jobs are in line and scheduled, whether any has expired, whether a suspect is in line,
-- and whether something lies in the inbox. Of one that is paused only the last is told. One statement for all of it: each
-- gives up the interpreter lock.
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
