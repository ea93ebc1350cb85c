-- get_jobs: all columns of a job record, of the jobs with the ids in the JSON array ?1. rows.py knows their order.
SELECT j.id, j.task, j.queue, j.state, CAST(j.payload AS BLOB), typeof(j.payload) = 'blob',
       j.priority, j.seq, j.run_at, j.created_at, j.attempt, j.losses, j.fence,
       j.misses, j.max_attempts, j.max_losses, j.lease, j.keep, j.expires_at, j.tags, j.unique_key, j.run_id, j.started_at,
       j.ended_at, j.worker, j.lease_until, j.result, j.error, j.progress, j.blocked_by, j.edges,
       j.successor, iif(j.parked_until IS NULL, j.on_timeout, NULL), j.reads, j.ready_at, j.headers
FROM json_each(?1) AS wanted JOIN tenure_jobs AS j ON j.id = wanted.value
