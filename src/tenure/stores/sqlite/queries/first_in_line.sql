-- first_in_line: up to ?3 jobs of the queue ?1 that have not expired at ?4, skipping the first ?5: suspects if ?2 is 1, other
-- jobs if it is 0. Returns everything that a lease contains, as one JSON array. A step comes with the attributes that it reads,
-- as JSON text inside the JSON. Searching the text of `reads` for each quoted name is cheaper than parsing it, and may also
-- match a name that itself contains commas and quotation marks: the caller drops those. The || '' makes the object text in
-- every version of SQLite; some would embed it as JSON otherwise.
SELECT json_group_array(json_array(
    n, id, task, queue, iif(typeof(payload) = 'blob', hex(payload), CAST(payload AS TEXT)), typeof(payload) = 'blob',
    priority, seq, created_at, attempt, losses, fence, misses, max_attempts, max_losses, lease, keep, expires_at,
    json(tags), unique_key, run_id, json(error),
    json(CASE WHEN edges THEN (
        SELECT json_group_array(result) FROM (SELECT result FROM tenure_edges WHERE dependent = id ORDER BY position)
    ) END),
    CASE WHEN run_id IS NOT NULL THEN json_array(reads, on_timeout, CASE WHEN reads IS NOT NULL THEN (
        SELECT json_group_object(a.name, a.value) || '' FROM tenure_attributes AS a
        WHERE a.run_id = first.run_id AND instr(first.reads, json_quote(a.name))
    ) END) END,
    ready_at, json(headers)
)) FROM (
    SELECT * FROM tenure_jobs
    WHERE state = 'waiting' AND run_at IS NULL AND queue = ?1 AND suspect = ?2
      AND (expires_at IS NULL OR attempt > 0 OR expires_at > ?4)
    ORDER BY priority, seq
    LIMIT ?3 OFFSET ?5
) AS first
