-- current_step: The job with this id, or the current step of the run, if it has not ended; and whether it has begun. No
-- row if it has ended or is gone. Locks it as a firing with this overlap needs it: nearly always `lock_last_jobs` has
-- done so.
CREATE OR REPLACE FUNCTION current_step(_id text, _overlap text) RETURNS TABLE (id text, begun boolean) LANGUAGE plpgsql ROWS 1 AS $$
#variable_conflict use_column
BEGIN
    IF (SELECT true FROM resolve_ids(ARRAY[_id]) m JOIN live l ON l.n = ANY (ARRAY[m.n])) IS NULL THEN
        RETURN;
    ELSIF _overlap = 'wait' THEN
        PERFORM lock_jobs_shared(ARRAY[_id]);
    ELSIF _overlap = 'replace' THEN
        PERFORM lock_jobs(ARRAY[_id]);
    END IF;
    RETURN QUERY
    SELECT j.id, l.fence > 0 OR m.n <> m.own
    FROM resolve_ids(ARRAY[_id]) m JOIN live l ON l.n = ANY (ARRAY[m.n]) JOIN jobs j ON j.n = ANY (ARRAY[m.n]);
END
$$;
