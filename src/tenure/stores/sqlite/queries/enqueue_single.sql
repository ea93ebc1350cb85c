-- enqueue_single: store one plain job, all in one call of the library, and say whether its queue is paused. An id that exists
-- takes everything back, and raises. If somebody has an open edge to the id it has come back, and is marked as one that blocks.
BEGIN IMMEDIATE;
INSERT INTO tenure_queues (name, seq, waiting) VALUES (:queue, 0, 1), ('', 1, 0)
ON CONFLICT (name) DO UPDATE SET seq = seq + excluded.seq, waiting = waiting + excluded.waiting;
INSERT OR ROLLBACK INTO tenure_jobs (
    id, task, queue, state, payload, priority, seq, created_at, max_attempts, max_losses, lease, keep, expires_at, tags, blocks
)
VALUES (
    :id, :task, :queue, 'waiting', :payload, :priority, (SELECT seq FROM tenure_queues WHERE name = ''), :now, :max_attempts,
    :max_losses, :lease, :keep, :now + :expires, :tags, EXISTS (SELECT 1 FROM tenure_edges WHERE blocker = :id AND open = 1)
);
COMMIT;
SELECT paused FROM tenure_queues WHERE name = :queue
