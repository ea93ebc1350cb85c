-- get_shortened: `get_by_number` for a listing: payload and result are cut to `_most` bytes or characters, errors have no
-- traceback and no output, so that large ones are not sent. The caller applies `shortened` of tenure/core/job.py to the
-- answer, so this need not cut everything: results that records.py has quoted are sent whole, and so are messages.
CREATE OR REPLACE FUNCTION get_shortened(_ns bigint[], _most integer) RETURNS SETOF records LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT n, id, task, queue, state, substr(payload, 1, _most), raw, priority, seq, run_at, created_at, attempt, losses, fence,
           misses, max_attempts, max_losses, lease, keep, expires_at, tags, unique_key, run_id, started_at, ended_at, worker,
           lease_until, CASE WHEN starts_with(result, '~') THEN result ELSE left(result, _most) END,
           CASE WHEN left(error, 1) = '{' AND octet_length(error_head(error)) < octet_length(error) THEN error_head(error) || '}'
                ELSE error END,
           progress, blocked_by, results, successor, on_timeout, reads, ready_at, headers
    FROM records WHERE n = ANY (_ns);
END
$$;
