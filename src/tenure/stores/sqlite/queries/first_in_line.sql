-- first_in_line: up to ?3 jobs of the queue ?1, suspects or not as ?2 says, behind the first ?5 of them, with what it takes to run
-- them, as one JSON array.
-- A step of a run comes with the attributes that it reads, as text in the text. To look for a name there is cheaper than to take
-- the names apart, and finds one that is made of commas and quotation marks too: the caller knows better. (Some versions would take the
-- object for JSON, others for text: with nothing after it, it is text.)
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
    ) END) END
)) FROM (
    SELECT * FROM tenure_jobs
    WHERE state = 'waiting' AND run_at IS NULL AND queue = ?1 AND suspect = ?2
      AND (expires_at IS NULL OR attempt > 0 OR expires_at > ?4)
    ORDER BY priority, seq
    LIMIT ?3 OFFSET ?5
) AS first
