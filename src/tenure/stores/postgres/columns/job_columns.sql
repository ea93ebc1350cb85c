-- job_columns: the columns of `jobs` that every new job has.
n, id, task, queue, payload, raw, priority, created_at, due_at, expires_at, max_attempts, max_losses, lease, keep, tags,
headers
