-- unblock: put those of these rows ($1) in line whose chains are all complete. A chain is complete when its last row is.
UPDATE queuert.job AS j
SET status = 'pending', scheduled_at = greatest(j.scheduled_at, now())
WHERE j.id = ANY($1) AND j.status = 'blocked' AND NOT EXISTS (
    SELECT FROM queuert.job_blocker AS blocker
    WHERE blocker.job_id = j.id AND (
        SELECT last.status FROM queuert.job AS last
        WHERE last.chain_id = blocker.blocked_by_chain_id ORDER BY last.chain_index DESC LIMIT 1
    ) IS DISTINCT FROM 'completed'
)
RETURNING j.type_name
