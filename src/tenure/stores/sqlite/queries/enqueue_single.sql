-- enqueue_single: store one plain job in one call of the library, and return whether its queue is paused. If the id exists,
-- everything is rolled back and an error is raised. If an open edge points to the id (a job of that id was removed before), the
-- new job is marked as a blocker.
BEGIN IMMEDIATE;
INSERT INTO tenure_queues (name, seq, waiting) VALUES (:queue, 0, 1), ('', 1, 0)
ON CONFLICT (name) DO UPDATE SET seq = seq + excluded.seq, waiting = waiting + excluded.waiting;
INSERT OR ROLLBACK INTO tenure_jobs (
    id, task, queue, state, payload, priority, seq, created_at, max_attempts, max_losses, lease, keep, expires_at, tags, blocks,
    headers
)
VALUES (
    :id, :task, :queue, 'waiting', :payload, :priority, (SELECT seq FROM tenure_queues WHERE name = ''), :now, :max_attempts,
    :max_losses, :lease, :keep, :now + :expires, :tags, EXISTS (SELECT 1 FROM tenure_edges WHERE blocker = :id AND open = 1),
    :headers
);
COMMIT;
SELECT paused FROM tenure_queues WHERE name = :queue
