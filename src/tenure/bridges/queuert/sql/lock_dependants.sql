-- lock_dependants: lock the blocked rows that wait for these chains ($1), in order of id so that two ends cannot deadlock.
-- A separate statement, because the next one then sees what the ends that held these locks before have committed.
SELECT j.id
FROM queuert.job AS j
WHERE j.id IN (SELECT job_id FROM queuert.job_blocker WHERE blocked_by_chain_id = ANY($1)) AND j.status = 'blocked'
ORDER BY j.id
FOR UPDATE
