-- get_shortened: `get_by_number` for a listing: payload, result and error are cut to `_most` bytes or characters, so that
-- large ones are not sent. `shortened` in tenure/core/job.py does the same, and is applied to the answer: this need not cut
-- everything. It leaves results that records.py has quoted, and errors that contain a NUL, which PostgreSQL cannot decode.
CREATE OR REPLACE FUNCTION get_shortened(_ns bigint[], _most integer) RETURNS SETOF records LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT n, id, task, queue, state, substr(payload, 1, _most), raw, priority, seq, run_at, created_at, attempt, losses, fence,
           misses, max_attempts, max_losses, lease, keep, expires_at, tags, unique_key, run_id, started_at, ended_at, worker,
           lease_until, CASE WHEN starts_with(result, '~') THEN result ELSE left(result, _most) END,
           CASE WHEN starts_with(error, '{') AND position('\u0000' IN error) = 0 THEN (
               SELECT json_build_object('type', left(parts.type, _most), 'message', left(parts.message, _most))::text
               FROM error_parts(error) AS parts
           ) ELSE error END,
           progress, blocked_by, results, successor, on_timeout, reads, ready_at, headers
    FROM records WHERE n = ANY (_ns);
END
$$;
