-- insert_jobs: insert new jobs; jobs whose id exists stay unchanged. The caller repeats the group of values for up to a hundred
-- jobs: each statement gives up the interpreter lock, so one statement a job would wait for a busy application thread at every
-- job.
INSERT INTO tenure_jobs (
    id, task, queue, state, payload, priority, seq, run_at, created_at, max_attempts, max_losses, lease, keep, expires_at,
    tags, unique_key, window, run_id, edges, blocked_by, if_blocker_fails, blocks, flow, reads, headers
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING
