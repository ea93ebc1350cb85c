-- insert_jobs: store new jobs; those whose id exists are left as they are. The caller repeats the group of values, for as
-- many jobs as it has, up to a hundred: a statement a job would give up the interpreter lock, and wait for a busy thread of
-- the application, again at every job.
INSERT INTO tenure_jobs (
    id, task, queue, state, payload, priority, seq, run_at, created_at, max_attempts, max_losses, lease, keep, expires_at,
    tags, unique_key, window, run_id, edges, blocked_by, if_blocker_fails, blocks, flow, reads
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING
