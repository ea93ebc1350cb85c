-- lock_last_jobs: Lock the last jobs that have not ended, of those schedules whose firing waits for the last job or
-- replaces it. Locks them together, because one by one they would not be locked in the order of `lock_jobs`. The caller
-- has locked the schedules. `_firings`: as `fire` reads them.
CREATE OR REPLACE FUNCTION lock_last_jobs(_firings json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _awaited text[];
    _replaced text[];
BEGIN
    SELECT array_agg(s.last) FILTER (WHERE each.overlap = 'wait'), array_agg(s.last) FILTER (WHERE each.overlap = 'replace')
    INTO _awaited, _replaced
    FROM json_to_recordset(_firings) AS each (name text, version bigint, overlap text)
    JOIN schedules s ON s.name = ANY (ARRAY[each.name]) AND s.version = each.version,
        LATERAL resolve_ids(ARRAY[s.last]) m JOIN live l ON l.n = ANY (ARRAY[m.n])
    WHERE each.overlap IN ('wait', 'replace');
    IF _awaited IS NOT NULL THEN
        PERFORM lock_jobs_shared(_awaited);
    END IF;
    IF _replaced IS NOT NULL THEN
        PERFORM lock_jobs(_replaced);
    END IF;
END
$$;
