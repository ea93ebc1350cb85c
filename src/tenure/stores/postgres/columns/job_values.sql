-- job_values: what `job_columns` hold, from `id` on, of a row that has the plain fields and a payload.
id, task, queue, payload, coalesce(raw, false), coalesce(priority, 0), _now,
CASE WHEN coalesce(run_at, _now + delay) > _now THEN coalesce(run_at, _now + delay) END,
_now + expires, max_attempts, coalesce(max_losses, 3), lease, keep, tags, headers
